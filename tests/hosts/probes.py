"""
Probes: a reader and a writer of each host of the API, twice a second.

A write at one host is read at the next one: the read must see it.
"""

import http.client
import json
import threading
import time
from itertools import pairwise

from tests.chaos.site import VERSION
from tests.hosts.site import APIS, PORT

GAP = 0.5
#: Seconds that a probe waits for an answer.
ANSWER = 5.0
HEADERS = {**VERSION, "Content-Type": "application/json"}


class Probes:
    """The probes of a phase. stale: reads that did not see a write, as sentences."""

    def __init__(self, site):
        self._site, self._stop = site, threading.Event()
        self.stale, self.times = [], {}  # (host, "read" or "write") -> monotonic times of answers
        self._chassis, self._writes = {}, {}
        self._threads = []

    def __enter__(self):
        self.began = time.monotonic()
        for host in APIS:
            body = {"description": f"probe of {host}", "extra": {"count": 0}}
            created = _ask(self._site.network.address(host), "POST", "/v1/chassis", body)
            assert created, f"no chassis at {host}"
            self._chassis[host], self._writes[host] = created["uuid"], 0
            for kind, work in (("write", self._write), ("read", self._read)):
                self.times[host, kind] = []
                arguments = (host, kind, work)
                self._threads.append(threading.Thread(target=self._repeat, args=arguments))
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended = time.monotonic()
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for host in APIS:
            address = self._site.network.address(host)
            _ask(address, "DELETE", f"/v1/chassis/{self._chassis[host]}")

    def _repeat(self, host, kind, work):
        address = self._site.network.address(host)
        while not self._stop.is_set():
            if work(host, address):
                self.times[host, kind].append(time.monotonic())
            self._stop.wait(GAP)

    def _write(self, host, address):
        count = self._writes[host] + 1
        change = [{"op": "replace", "path": "/extra", "value": {"count": count}}]
        path = f"/v1/chassis/{self._chassis[host]}"
        if _ask(address, "PATCH", path, change) is None:
            return False
        self._writes[host] = count
        return True

    def _read(self, host, address):
        """Read what was written at another host."""
        other = APIS[(APIS.index(host) + 1) % len(APIS)]
        count = self._writes[other]
        chassis = _ask(address, "GET", f"/v1/chassis/{self._chassis[other]}")
        if chassis is None:
            return False
        if chassis["extra"]["count"] < count:
            self.stale.append(f"{host} shows {chassis['extra']['count']}, {other} wrote {count}")
        return True

    def gap(self, kind, *hosts):
        """Longest time in seconds without an answer of any of the hosts."""
        answers = sorted(
            moment for host in hosts for moment in self.times[host, kind] if moment <= self.ended
        )
        moments = [self.began, *answers, self.ended]
        return max((later - moment for moment, later in pairwise(moments)), default=0)


def _ask(address, method, path, body=None):
    """Send a request on a connection of its own; return the document of a good answer, else None."""
    connection = http.client.HTTPConnection(address, PORT, timeout=ANSWER)
    try:
        connection.request(method, path, json.dumps(body) if body else None, HEADERS)
        answer = connection.getresponse()
        text = answer.read()
        return json.loads(text or b"{}") if answer.status < 300 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
