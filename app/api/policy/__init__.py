"""The policy: rights of callers, scopes of lists, hidden fields."""
