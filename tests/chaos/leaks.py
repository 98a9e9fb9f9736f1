"""
Leaks: places where a password of a BMC can be read that must have none.

`Watch` looks at the processes while they run; `Search` looks through what a site has left: logs,
answers of the API, dumps and files of the database and of Redis, other files.
"""

import base64
import subprocess
import tempfile
import threading
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import requests

from tests.chaos.site import VERSION
from tests.support.postgresql import find

#: Files of a process in /proc that show texts to users of the host.
SHOWN = ("cmdline", "environ")
#: Paths of the API's document whose answers are no JSON of the service's data.
_NO_DATA = ("/docs", "/openapi.json", "/ui", "/v1/events/stream", "/v1/login", "/v1/logout")
#: Nodes whose own documents are asked for; all are in the lists.
NODES = 3


def forms(username, password):
    """Return the forms in which a password may appear: plain, quoted, and as credentials."""
    login = base64.b64encode(f"{username}:{password}".encode()).decode()
    plain = base64.b64encode(password.encode()).decode().rstrip("=")
    return {password, quote(password, safe=""), login, plain, password.encode().hex()}


class Watch(threading.Thread):
    """Keeps the arguments and environments of all processes of a site, also of short ones."""

    def __init__(self, site, between=0.2):
        super().__init__(name="watch", daemon=True)
        self._site, self._between, self._over = site, between, threading.Event()
        self.texts = defaultdict(set)  # name of the file in /proc -> contents
        self.core_sizes = {}  # role -> soft limit of core dumps

    def run(self):
        while not self._over.wait(self._between):
            self.look()

    def look(self):
        roles = {pid: name for name, pid in self._site.pids.items() if name in self._site.roles}
        for pid in descendants(roles):
            for name in SHOWN:
                with suppress(OSError):
                    self.texts[name].add(Path(f"/proc/{pid}/{name}").read_bytes())
        for pid, role in roles.items():
            with suppress(OSError):
                rows = Path(f"/proc/{pid}/limits").read_text().splitlines()
                (line,) = (row for row in rows if "core file size" in row)
                self.core_sizes[role] = line.split()[4]

    def end(self):
        self._over.set()
        self.join()
        self.look()


def descendants(pids):
    """Return processes and all their descendants."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    family, new = set(pids), set(pids)
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - family
        family |= new
    return family


class Search:
    """
    A search for passwords in everything that a site shows and leaves.

        with Search(site, passwords) as search:
            search.add_answers()
            places = search.results()
    """

    def __init__(self, site, passwords):
        self.site, self.passwords = site, passwords
        self.nodes = [machine["uuid"] for machine in site.machines[:NODES]]
        self.counts = Counter()  # kind of place -> number of searched ones
        self._names = {}  # path of a text -> its place
        self._folder = tempfile.TemporaryDirectory(prefix="ingot-leaks-")

    def __enter__(self):
        self._texts = Path(self._folder.name) / "texts"
        self._texts.mkdir()
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def add(self, kind, name, data):
        """Add bytes to the searched texts."""
        self.counts[kind] += 1
        path = self._texts / str(len(self._names))
        path.write_bytes(data)
        self._names[path] = f"{kind}: {name}"

    def add_processes(self, watch):
        for name, texts in watch.texts.items():
            for text in texts:
                self.add(f"/proc/PID/{name}", text[:60].decode(errors="replace"), text)

    def add_answers(self):
        """Add the answers of all lists and documents of the API, as an administrator gets them."""
        with requests.Session() as http:
            http.trust_env = False
            http.headers.update(VERSION)
            document = http.get(f"{self.site.url}/openapi.json", timeout=60).json()
            for path in sorted(document["paths"]):
                if "get" not in document["paths"][path] or path.startswith(_NO_DATA):
                    continue
                for node in self.nodes if "{ident}" in path else [""]:
                    url = path.replace("{ident}", node)
                    if "{" not in url:
                        self._add_pages(http, f"{self.site.url}{url}")

    def _add_pages(self, http, url):
        following = url
        while isinstance(following, str) and following.startswith(self.site.url):
            answer = http.get(following, timeout=60)
            self.add("answers of the API", following, answer.content)
            document = answer.json() if answer.ok and answer.content else None
            following = document.get("next") if isinstance(document, dict) else None

    def add_dumps(self):
        """Add a dump of the database, and all keys of Redis with their values."""
        dump = subprocess.run(
            [find() / "pg_dump", "--inserts", self.site.database], check=True, capture_output=True
        )
        self.add("dumps of the database", "pg_dump", dump.stdout)
        for key in self.site.redis.scan_iter(count=1000):
            self.add("keys of Redis", key.decode(), key + (self.site.redis.dump(key) or b""))

    def results(self):
        """Return the places with a password, also of all files of the site."""
        patterns = Path(self._folder.name) / "patterns"
        lines = {form for password in self.passwords for form in forms("admin", password)}
        patterns.write_text("".join(f"{line}\n" for line in sorted(lines)))
        folders = [self.site.folder, Path(self.site.postgres_folder)]
        for folder in folders:
            for path in folder.rglob("*"):
                self.counts[self._kind(path)] += path.is_file()
        # one process for all patterns and files: thousands of both
        search = subprocess.run(
            ["grep", "--recursive", "--text", "--fixed-strings", "--files-with-matches",
             f"--file={patterns}", self._texts, *folders],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert search.returncode < 2 or "No such file" in search.stderr, search.stderr
        return [self._names.get(Path(line), line) for line in search.stdout.splitlines()]

    def _kind(self, path):
        if path.is_relative_to(self.site.folder / "logs"):
            return "logs"
        is_database = path.is_relative_to(self.site.postgres_folder)
        return "files of the database" if is_database else "other files"
