"""
glance-api in one process: `serve.py PORT FOLDER`, with the folder of its configuration. Runs in the
environment that has Glance.
"""

import os
import subprocess
import sys
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server


class Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def main(port, folder):
    os.environ["OS_GLANCE_CONFIG_DIR"] = folder
    manage = Path(sys.executable).with_name("glance-manage")
    subprocess.run([manage, f"--config-dir={folder}", "db_sync"], check=True)
    sys.argv = sys.argv[:1]  # Glance reads it
    from glance.wsgi import api

    with make_server("127.0.0.1", int(port), api.application, Threads, Quiet) as server:
        server.serve_forever()


main(*sys.argv[1:])
