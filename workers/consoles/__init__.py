"""Serial consoles of the nodes of a conductor: their programs, history, and listeners."""
