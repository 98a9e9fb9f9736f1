"""Types of the values that requests and query strings give."""
