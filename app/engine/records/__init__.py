"""Records of operations: reports of drivers and agents, erasures, recordings."""
