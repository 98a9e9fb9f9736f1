"""Ports, port groups, VIFs and networks: what connects machines."""
