"""What the API declares apart from its routes: versions, fields of nodes, public paths."""
