"""Baselines: expected facts of machines, and the nodes that differ from them."""
