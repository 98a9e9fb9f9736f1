"""Schemas of bodies and query strings, by resource."""
