"""Routes of nodes, and of the resources of one node."""
