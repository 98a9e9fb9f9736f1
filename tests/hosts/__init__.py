"""Several hosts, with a network between them that is cut, slow or lossy: see `__main__`."""
