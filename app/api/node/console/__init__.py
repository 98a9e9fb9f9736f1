"""Routes and sockets of the consoles of a node."""
