"""
neutron-server in one process: `serve.py PORT DATABASE CONFIG`, with the URL of its database. Runs in
the environment that has Neutron.

The tables are made of its models: its migrations are not made for SQLite.
"""

import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from neutron.db.migration.models import head
from sqlalchemy import create_engine, event


class Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def main(port, database, path):
    sys.argv = [sys.argv[0], f"--config-file={path}"]
    engine = create_engine(database)
    event.listen(
        engine, "connect", lambda connection, _: connection.execute("PRAGMA journal_mode=WAL")
    )
    head.get_metadata().create_all(engine)
    engine.dispose()
    from neutron.wsgi import api  # reads the configuration, and starts the plugins

    with make_server("127.0.0.1", int(port), api.application, Threads, Quiet) as server:
        print("serving", flush=True)
        server.serve_forever()


main(*sys.argv[1:])
