"""
Keystone in one process: `serve.py PORT FOLDER`, with the folder of its configuration. Runs in the
environment that has Keystone.

It answers one request after another, as SQLite has one writer.
"""

import os
import subprocess
import sys
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def main(port, folder):
    os.environ["OS_KEYSTONE_CONFIG_DIR"] = folder
    manage = [Path(sys.executable).with_name("keystone-manage"), f"--config-dir={folder}"]
    owner = ["--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid())]
    urls = [f"--bootstrap-{kind}-url=http://127.0.0.1:{port}/v3" for kind in ("public", "internal")]
    for words in (
        ["db_sync"],
        ["fernet_setup", *owner],
        ["credential_setup", *owner],
        ["bootstrap", "--bootstrap-password=sesame", "--bootstrap-region-id=RegionOne", *urls],
    ):
        subprocess.run([*manage, *words], check=True)
    sys.argv = sys.argv[:1]  # Keystone reads it
    from keystone.server import wsgi

    application = wsgi.initialize_public_application()
    with make_server("127.0.0.1", int(port), application, handler_class=Quiet) as server:
        server.serve_forever()


main(*sys.argv[1:])
