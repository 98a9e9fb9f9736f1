"""
Consoles over Redis: output of machines from conductors to the API, and input the other way.

The output of a node is a stream of Redis, of which the newest entries are kept, so that a watcher
sees the output before it, and misses nothing while the API or the conductor is replaced. Input is
published, and never kept: input that no conductor has received is lost, and not typed later. Like
calls, all documents are sealed. Tickets, which stand for an authorized caller, are kept under the
hash of their secret, and each is taken once.

Documents of output, each with the id of the session of the console:

    {"session", "data": base64}        output of the machine
    {"session", "state", "reason"}     the connection to the BMC has changed
    {"session", "writer", "holder"}    another caller may type: a name, and the id of its connection

Documents of input:

    {"session", "holder", "number", "act": "claim" | "steal" | "release" | "type", "name", "data"}

A conductor accepts input for its present session only, and each number of a holder once and in
order, so that copies of documents type nothing.

A graphical console has, in addition, a stream for each viewer, as each has its own connection to
the VNC server (`workers.consoles.screens`). Its documents have the viewer's id in `screen`:

    {"session", "screen", "number", "data": base64}   what the server sends, in numbered pieces
    {"session", "screen"}                              the connection still exists
    {"session", "screen", "end": reason}               it has ended

Documents of input of a viewer, beside those above, whose data is whole messages of RFB:

    {"session", "holder", "number", "act": "open" | "close"}
    {"session", "holder", "number", "act": "see", "data"}           asks for pictures
    {"session", "holder", "number", "act": "confirm", "received"}   number of received pieces
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import redis

from app.broker.redis_broker import client
from app.broker.seals import Forged, Seals
from app.config.settings import Settings
from app.db.sealing import Keyring
from app.errors import Unavailable
from app.observe import log

logger = log.RateLimited(log.get(__name__))

#: Entries of a node's output that are kept, and seconds after the last one until they expire.
KEPT, KEPT_FOR = 400, 3600
#: Entries of a viewer's stream, more than a conductor sends without confirmation; and seconds.
SCREEN_KEPT, SCREEN_KEPT_FOR = 64, 60
#: Most bytes of a document of input, several times those of the longest accepted input.
LONGEST_INPUT = 64 << 10
#: Seconds that a read waits for output.
BLOCK = 1.0
#: Most entries of a read.
READ = 64
#: Seconds for which a ticket is valid.
TICKET_TIME = 60

Document = Mapping[str, Any]


class ConsoleChannel:
    """The consoles of all nodes, for the API and for conductors."""

    def __init__(self, settings: Settings, keyring: Keyring) -> None:
        self._seals = Seals(keyring)
        self._prefix = f"{settings.broker.prefix}:console"
        self._client = client(settings.broker.url, max(settings.broker.connect_timeout, 2 * BLOCK))

    def publish(self, documents: Sequence[tuple[str, Document]]) -> None:
        """
        Add documents of output, each with the UUID of its node.

        Raises RedisError.
        """
        with self._client.pipeline(transaction=False) as pipeline:
            for node, document in documents:
                viewer = document.get("screen")
                key = self._screen(node, viewer) if viewer else self._output(node)
                length, lifetime = (SCREEN_KEPT, SCREEN_KEPT_FOR) if viewer else (KEPT, KEPT_FOR)
                pipeline.xadd(key, {"d": self._seals.seal(document, key)}, maxlen=length)
                pipeline.expire(key, lifetime)
            pipeline.execute()

    def output(self, node: str, start: str) -> list[tuple[str, Document]]:
        """
        Return (position, document) of a node's output after a position; wait for it up to `BLOCK`.

        Raises RedisError.
        """
        documents = self._read(node, {self._output(node): start})
        return [(position, document) for _, position, document in documents]

    def screen(
        self, node: str, viewer: str, start: str, screen_start: str
    ) -> list[tuple[bool, str, Document]]:
        """
        Return documents as `output` does, of a node and of a viewer of its screen.

        Before each position: whether it is one of the viewer. start: position in the node's output.
        screen_start: in that of the viewer.

        Raises RedisError.
        """
        key = self._screen(node, viewer)
        documents = self._read(node, {self._output(node): start, key: screen_start})
        return [(name == key, position, document) for name, position, document in documents]

    def newest(self, node: str) -> str:
        """
        Return the position of the newest document of a node's output, after which others come.

        Raises RedisError.
        """
        key = self._output(node)
        answer = cast("Any", self._client.xread({key: "0"}))
        return str(answer[0][1][-1][0].decode()) if answer else "0"

    def _read(self, node: str, starts: Mapping[str, str]) -> list[tuple[str, str, Document]]:
        """Return (name of the stream, position, document) after positions in streams."""
        client: Any = self._client  # its types know no mapping of texts alone
        documents = []
        for name, entries in client.xread(starts, count=READ, block=int(BLOCK * 1000)) or ():
            key = name.decode()
            for position, fields in entries:
                try:
                    document = self._seals.open(fields.get(b"d", b""), key)
                except Forged as error:
                    logger.warning("console.forged", node=node, detail=str(error))
                    document = {}
                documents.append((key, position.decode(), document))
        return documents

    def send(self, node: str, document: Document) -> None:
        """
        Send a document of input to the conductor that has the console.

        Raises RedisError.
        """
        channel = self._input(node)
        self._client.publish(channel, self._seals.seal(document, channel))

    def input(self) -> Iterator[tuple[str, Document] | None]:
        """
        Yield (UUID of the node, document) of all input; None at least once in `BLOCK` seconds.

        Raises RedisError.
        """
        client: Any = self._client  # its method has no types
        with client.pubsub(ignore_subscribe_messages=True) as subscription:
            subscription.psubscribe(self._input("*"))
            while True:
                message = subscription.get_message(timeout=BLOCK)
                if message is None or message["type"] != "pmessage":
                    yield None
                    continue
                channel, data = message["channel"].decode(errors="replace"), message["data"]
                node = channel.removeprefix(self._input(""))
                try:
                    if len(data) > LONGEST_INPUT:
                        raise Forged(f"it has more than {LONGEST_INPUT} bytes")
                    yield node, self._seals.open(data, channel)
                except Forged as error:
                    logger.warning("console.forged", node=node, detail=str(error))
                    yield None

    def keep_ticket(self, ticket: str, document: Document, seconds: int = TICKET_TIME) -> None:
        """
        Keep the document of a ticket for some seconds.

        Raises Unavailable: Redis is out of reach.
        """
        key = self._ticket(ticket)
        try:
            self._client.set(key, self._seals.seal(document, key), ex=seconds)
        except redis.RedisError as error:
            raise Unavailable("The message broker is out of reach, please retry.") from error

    def take_ticket(self, ticket: str) -> Document | None:
        """
        Return the document of a ticket; None: it is unknown, has expired, or was used.

        Raises Unavailable: Redis is out of reach.
        """
        key = self._ticket(ticket)
        try:
            with self._client.pipeline(transaction=True) as pipeline:
                pipeline.get(key)
                pipeline.delete(key)
                data = pipeline.execute()[0]
            return self._seals.open(data, key) if data else None
        except Forged as error:
            logger.warning("console.forged", detail=str(error))
            return None
        except redis.RedisError as error:
            raise Unavailable("The message broker is out of reach, please retry.") from error

    def _output(self, node: str) -> str:
        return f"{self._prefix}:output:{node}"

    def _screen(self, node: str, viewer: str) -> str:
        return f"{self._prefix}:screen:{node}:{viewer}"

    def _input(self, node: str) -> str:
        return f"{self._prefix}:input:{node}"

    def _ticket(self, ticket: str) -> str:
        return f"{self._prefix}:ticket:{hashlib.sha256(ticket.encode()).hexdigest()}"
