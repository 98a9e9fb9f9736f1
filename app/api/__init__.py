"""The REST API. Only this package and `app.main` know Flask."""
