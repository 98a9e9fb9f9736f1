"""
Server of tenants' images, which records each request in a journal.

    python -m tests.lab.images PORT FOLDER JOURNAL ADDRESS...
"""

import json
import sys
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class Handler(SimpleHTTPRequestHandler):
    """Files of a folder."""

    def __init__(self, *arguments, journal, **about):
        self._journal = journal
        super().__init__(*arguments, **about)

    def do_GET(self):
        line = {"at": time.time(), "path": self.path, "part": self.headers.get("Range")}
        with self._journal.open("a") as journal:
            journal.write(json.dumps(line) + "\n")
        super().do_GET()

    def log_message(self, *_arguments):
        pass


def whole(journal, url):
    """Number of requests for the whole of a URL; the service's check of an image asks for a part."""
    if not journal.exists():
        return 0
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    return sum(line["path"] == f"{url.path}?{url.query}" and not line["part"] for line in lines)


def main(port, folder, journal, *addresses):
    serve = partial(Handler, directory=folder, journal=Path(journal))
    for address in addresses:
        server = ThreadingHTTPServer((address, int(port)), serve)
        Thread(target=server.serve_forever).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
