"""
Schemas of bodies and query strings, by resource.

`PortChange` has the fields that a patch may change, `PortCreate` those of a new port; schemas whose
names end in `Filters` or `Query` have the parameters of query strings.
"""
