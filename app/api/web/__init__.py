"""Root documents, pages, the documentation, and the sign-in of browsers."""
