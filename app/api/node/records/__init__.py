"""Routes of the records of a node: history, logs, recordings, sanitation reports."""
