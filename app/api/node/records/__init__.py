"""Routes of what is kept about a node: history, logs, recordings, sanitation reports."""
