"""Program: `ingot up` with fake roles, and the options of `ingot up`."""

import http.server
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

from app.server import tls_files
from workers import cli
from workers.supervisor import roles


def registry(settings):
    return Path(settings.default.data_dir, "conductors")


def api(settings):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            if self.path == "/crash":
                os._exit(3)

        def log_message(self, *arguments):
            pass

    address = (settings.api.host_ip, settings.api.port)
    # it leaves a child process at every end
    subprocess.Popen(["sleep", "600"])
    http.server.ThreadingHTTPServer(address, Handler).serve_forever()


def conductor(settings, name):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if os.environ.get("FAKE_CONDUCTOR") == "broken":
        raise RuntimeError("no driver loads")
    registry(settings).mkdir(exist_ok=True)
    (registry(settings) / name).write_text(uuid.uuid4().hex)
    time.sleep(600)


def beat(_settings):
    time.sleep(600)


def check(settings):
    tls_files.files(settings.api)


def alive(settings):
    if not registry(settings).exists():
        return {}
    return {path.name: path.read_text() for path in registry(settings).iterdir()}


def silent(settings, names):
    """Conductors without a row; a file `hangs` makes the question last for ever."""
    if Path(settings.default.data_dir, "hangs").exists():
        time.sleep(600)
    return [name for name in names if name not in alive(settings)]


def upgrade(settings):
    from sqlalchemy import create_engine, text

    engine = create_engine(settings.database.connection)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS starts (at text)"))
        connection.execute(text("INSERT INTO starts VALUES (datetime())"))
        print(connection.scalar(text("SELECT count(*) FROM starts")), file=sys.stderr)
    if os.environ.get("FAKE_DATABASE") == "newer":
        from alembic.util import CommandError

        raise CommandError("Can't locate revision identified by 'f00'")


def main():
    roles.ROLES = {
        "api": api, "files": beat, "conductor": conductor, "beat": beat, "check": check,
        "upgrade": upgrade, "prepare": registry, "alive": alive,
        "silent": silent,
    }  # fmt: skip
    roles.PRELOAD = ()
    cli.main()


if __name__ == "__main__":
    main()
