"""Declared resources and their routes: ports, volumes, allocations, runbooks and the like."""
