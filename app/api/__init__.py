"""The REST API. Only this package and `app.server.application` know Flask."""
