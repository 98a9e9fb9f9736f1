"""JSON Schemas of responses."""
