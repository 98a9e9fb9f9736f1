"""Web servers on loopback."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Handler of a server's requests: subclasses have `do_GET` and the like."""

    def body(self):
        """The request's body, decoded from JSON."""
        length = int(self.headers.get("Content-Length") or 0)
        return json.loads(self.rfile.read(length) or b"null")

    def answer(self, status, body=b"", headers=()):
        """Send a response. body: bytes, or a document to encode as JSON."""
        headers = dict(headers)
        if not isinstance(body, bytes):
            body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def serving(handler, host="127.0.0.1", tls=None, **facts):
    """
    Serve on a free port: `url` is its address, and each of `facts` its attribute.

    tls: SSL context of the server; None: no TLS.
    """
    with ThreadingHTTPServer((host, 0), handler) as server:
        server.url = f"{'https' if tls else 'http'}://{host}:{server.server_port}"
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        vars(server).update(facts)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
