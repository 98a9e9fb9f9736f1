"""The common parts of all requests: context, routes, arguments, transactions, audit."""
