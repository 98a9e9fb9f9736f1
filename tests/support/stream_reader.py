"""A reader of the event stream that comes and goes."""

import http.client
import json
import random
import threading
from contextlib import suppress
from urllib.parse import urlsplit

from tests.support.fleet import PATIENCE

VERSION = {"X-OpenStack-Ironic-API-Version": "1.115"}


class Reader(threading.Thread):
    """
    Reads the stream, disconnects at random messages, and continues with Last-Event-ID.

    message_limit: messages of a visit, at most.
    """

    def __init__(self, url, seed, message_limit=60):
        super().__init__(daemon=True)
        self._site, self._random, self._message_limit = (
            urlsplit(url).netloc,
            random.Random(seed),
            message_limit,
        )
        self.events, self.position, self.visits = [], 0, 0
        self.other_answers, self.ended = [], threading.Event()

    def run(self):
        while not self.ended.is_set():
            with suppress(OSError, http.client.HTTPException):
                self._visit(self._random.randint(1, self._message_limit))
            self.ended.wait(0.05)

    def _visit(self, message_limit):
        connection = http.client.HTTPConnection(self._site, timeout=PATIENCE)
        try:
            # a reader that has received nothing so far begins with the first event
            headers = {**VERSION, "Last-Event-ID": str(self.position)}
            connection.request("GET", "/v1/events/stream", headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                self.other_answers.append((answer.status, answer.read()))
                return
            self.visits += 1
            for _ in range(message_limit):
                message = self._message(answer)
                if message is None or self.ended.is_set():
                    return
        finally:
            connection.close()

    def _message(self, answer):
        """Read a message, whose number is known only once all of it has arrived."""
        fields = {}
        while (line := answer.readline()) != b"\n":
            if not line.endswith(b"\n"):
                return None
            name, _, value = line.decode().rstrip("\n").partition(": ")
            fields[name] = value
        if "data" in fields:
            self.events.append((fields["event"], json.loads(fields["data"])))
        self.position = int(fields.get("id", self.position))
        return fields
