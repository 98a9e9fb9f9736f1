"""Connectivity of machines: ports, port groups, VIFs and networks."""
