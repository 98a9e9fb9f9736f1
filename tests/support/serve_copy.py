"""
The service in one process, from a copy of the tree: `python -m tests.support.serve_copy DATABASE`.

A conductor runs the operations of a request before the response is sent. The first line of the
output is the port of the API.
"""

import sys

from werkzeug.serving import make_server

from app.db import schema
from app.server.application import create_app
from tests.support.inside import Inside
from workers.conductor import attempts

if __name__ == "__main__":
    url = f"sqlite:///{sys.argv[1]}"
    schema.upgrade(url)
    inside = Inside(url, INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT="3600")
    conductor = inside.conductor("copy-1")
    api = create_app(inside.runtime)

    def application(environ, start_response):
        body = api(environ, start_response)
        while inside.messages:
            attempts.run(conductor, inside.messages.pop(0))
        return body

    server = make_server("127.0.0.1", 0, application)
    print(server.port, flush=True)
    server.serve_forever()
