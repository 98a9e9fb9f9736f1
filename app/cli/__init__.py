"""The command line, a client of the REST API."""

DEFAULT_URL = "http://127.0.0.1:6385"
