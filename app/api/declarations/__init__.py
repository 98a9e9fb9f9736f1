"""Declarations besides the routes: versions, fields of nodes, public paths."""
