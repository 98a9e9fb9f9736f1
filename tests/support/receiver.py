"""Receiver of a webhook: verifies each delivery as docs/events.md describes."""

import base64
import hashlib
import hmac
import json
import threading
from contextlib import contextmanager, suppress

from tests.support.web import Handler, serving

SECRET = "a secret of the tests, long enough"


class Receiver:
    """
    Deliveries of a webhook, and the events in them.

    status, headers: of the next answers. gate: cleared, requests wait for it before they are answered.
    """

    def __init__(self, url="", secret=SECRET):
        self.url, self.secret = url, secret
        self.status, self.headers = 200, {}
        self.gate = threading.Event()
        self.gate.set()
        self.deliveries = []  # accepted ones, as (header of the signature, document)
        self.idents = []  # of Standard Webhooks, of all requests
        self.requests = 0
        self.arrived = threading.Event()
        self._lock = threading.Lock()

    def take(self, headers, body):
        """Record a delivery, and return the status of its answer."""
        signature = headers["Ingot-Signature"]
        with self._lock:
            self.requests += 1
        self.arrived.set()
        self.gate.wait(60)
        assert verified(self.secret, signature, body), "a wrong signature"
        assert standard_verified(self.secret, headers, body), "a wrong standard signature"
        with self._lock:
            self.idents.append(headers["webhook-id"])
            if self.status == 200:
                self.deliveries.append((signature, json.loads(body)))
            return self.status

    @property
    def documents(self):
        with self._lock:
            return [document for _, document in self.deliveries]

    @property
    def events(self):
        """Accepted events without repeats, in the order of their first delivery."""
        events = {}
        for document in self.documents:
            for event in document["events"]:
                assert event == events.setdefault(event["sequence"], event)
        return list(events.values())

    @property
    def numbers(self):
        return [event["sequence"] for event in self.events]


def verified(secret, signature, body):
    """Whether a secret has signed a body."""
    (_, seconds), *signed = (part.split("=", 1) for part in signature.split(","))
    digest = hmac.new(secret.encode(), seconds.encode() + b"." + body, hashlib.sha256)
    return any(hmac.compare_digest(digest.hexdigest(), value) for _, value in signed)


def standard_verified(secret, headers, body):
    """Whether a secret has signed a body, by the rule of Standard Webhooks."""
    encoded = secret.partition("whsec_")[2] or base64.b64encode(secret.encode())
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(base64.b64decode(encoded), content, hashlib.sha256).digest()
    expected = base64.b64encode(digest).decode()
    versions = [part.split(",") for part in headers["webhook-signature"].split(" ")]
    return any(
        version == "v1" and hmac.compare_digest(expected, value) for version, value in versions
    )


class _Posted(Handler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.receiver.take(self.headers, body)
        redirected = {"Location": self.server.url} if 300 <= status < 400 else {}
        with suppress(ConnectionError):  # the sender has given up, or was killed
            self.answer(status, b"", redirected | self.server.receiver.headers)


@contextmanager
def receiving(secret=SECRET, host="127.0.0.1"):
    """Serve a receiver on a free port."""
    receiver = Receiver(secret=secret)
    with serving(_Posted, host, receiver=receiver) as server:
        receiver.url = server.url
        try:
            yield receiver
        finally:
            receiver.gate.set()
