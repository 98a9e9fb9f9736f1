"""HTTP around the requests: addresses, limits, bodies, and the forms of responses and errors."""
