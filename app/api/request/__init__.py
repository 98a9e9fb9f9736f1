"""What all requests have in common: their context, routes, arguments, transactions and audit."""
