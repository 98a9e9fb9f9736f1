"""Routes of nodes and of what belongs to one node."""
