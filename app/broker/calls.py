"""
Calls to conductors over Redis, for both the caller and the conductor.

A message carries only a key. The call lies under the key until a conductor takes it, the caller
withdraws it, or its time is over: it is executed at most once, even if its message is delivered
twice.

If secrets are encrypted in the database, calls and answers are sealed as a whole with the same
data keys (AES-256-GCM). The seal also binds them to their key, so that a document that another
process wrote, changed, or copied from elsewhere is refused. It hides them, too: they may have
arguments of vendor functions, and Redis keeps them in its file for longer than in its memory. The
conductor refuses copies under the same key (`workers.conductor.fresh_calls`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from celery import Celery

from app.broker.breakers import FAILURES
from app.broker.queue import queues_of, send_task
from app.broker.redis_broker import client
from app.broker.seals import Forged, Seals
from app.config.settings import Settings
from app.db.sealing import Keyring
from app.errors import Unavailable
from app.observe import log

logger = log.RateLimited(log.get(__name__))

#: Task that answers one call, in a conductor's control process.
CALL_TASK = "ingot.ask"
#: Limit of a stored call in bytes, several times the largest request body of a call.
LARGEST = 8 << 20
#: Fields of a call that every release writes, with their types.
_FIELDS = {"node": str, "what": str, "arguments": dict}


class RedisCalls:
    """The methods of the caller raise Unavailable when Redis is out of reach."""

    def __init__(self, application: Celery, settings: Settings, keyring: Keyring) -> None:
        self._seals = Seals(keyring)
        self._application = application
        self._prefix = settings.broker.prefix
        self._client = client(settings.broker.url, max(settings.broker.connect_timeout, 5.0))
        self._reach = application.breakers.of_calls()

    def post(self, conductor: str, key: str, call: Mapping[str, Any], seconds: float) -> None:
        """Send a call to a conductor; it expires after `seconds` if it was not started."""
        name = self._call(key)
        with self._reaching():
            self._client.set(name, self._seals.seal(call, name), px=int(seconds * 1000))
            hint = (key, call["node"])
            # a late message is harmless: its call has expired in Redis
            queue = queues_of(self._application).now(conductor)
            send_task(self._application, CALL_TASK, hint, queue)

    def receive(self, key: str, seconds: float) -> Mapping[str, Any] | None:
        """Return the answer to a call, or None if none has arrived within `seconds`."""
        name = self._answer(key)
        with self._reaching():
            item = self._client.blpop([name], timeout=seconds)
        try:
            return self._seals.open(cast("bytes", item[1]), name) if item else None
        except Forged as error:  # the caller waits for another one
            logger.warning("answer.forged", detail=str(error))
            return None

    def withdraw(self, key: str) -> bool:
        """Cancel a call; False if the conductor has started it, or it is lost."""
        with self._reaching():
            return bool(self._client.delete(self._call(key)))

    def take(self, key: str) -> tuple[Mapping[str, object], float] | None:
        """
        Take a call that no conductor has taken, and the seconds until it expires in Redis.

        Raises Forged.
        """
        name = self._call(key)
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.getrange(name, 0, LARGEST)
            pipeline.pttl(name)
            pipeline.delete(name)
            data, milliseconds, _ = pipeline.execute()
        if not data:
            return None
        if len(data) > LARGEST:
            raise Forged(f"it has more than {LARGEST} bytes")
        call = self._seals.open(data, name)
        for field, kind in _FIELDS.items():
            if not isinstance(call.get(field), kind):
                raise Forged(f"it has no {field}")
        return call, milliseconds / 1000

    def answer(self, key: str, answer: Mapping[str, Any], seconds: float) -> None:
        """Store an answer for `seconds`, the rest of the caller's timeout, but at least one."""
        name = self._answer(key)
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.rpush(name, self._seals.seal(answer, name))
            pipeline.pexpire(name, int(max(seconds, 1.0) * 1000))
            pipeline.execute()

    def _call(self, key: str) -> str:
        return f"{self._prefix}:question:{key}"

    def _answer(self, key: str) -> str:
        return f"{self._prefix}:answer:{key}"

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            with self._reach.guard():
                yield
        except FAILURES as error:
            raise Unavailable("The message broker is out of reach, please retry.") from error
