"""
The database: connections, transactions, and the row layer.

A row is read and written in one of two ways:

- by a session, as SQLAlchemy documents it (`transactions.transaction`, `runtime.reading`);
- by a prepared statement (`prepared.Prepared`) on a connection, where it is executed for each step,
  heartbeat or request for a node, or by an idle service. `detached_rows` reads and writes instances
  of models by such statements.

In both ways a row is an instance of its model, or a tuple of the selected values. The worth of the
second way: docs/decisions/0016.
"""
