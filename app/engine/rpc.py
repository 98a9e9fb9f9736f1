"""
Asking: what has to be known now, and can be learnt only from a machine, is asked of the conductor
that the machine's node belongs to.

Only workers reach BMCs. The conductor answers in threads of its own , see
`workers.conductor.rpc_server`, so that a question never waits behind steps. It is begun once at
most: a conductor that dies is replaced, and the new owner of the node is asked.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from app import release
from app.errors import GatewayTimeout, NodeLocked, ServiceError, Unavailable
from app.inventory import nodes
from app.kit import conductors
from app.kit.concurrency import given_away
from app.models import Node
from app.ring import Member, owner
from app.runtime import Asks, Runtime

#: Seconds between looks whether the conductor that was asked still lives.
LOOK = 0.5


@dataclass(frozen=True, slots=True)
class Question:
    """
    What can be asked: a method of an interface.

    locked: refused while the node is reserved, as Ironic does. order: it changes the machine, so
    nobody else gives it orders meanwhile. repeatable: asked again when the conductor that had
    begun to answer is dead. needs: what a conductor must understand to answer (`app.release`).
    """

    interface: str
    method: str
    locked: bool = True
    order: bool = False
    repeatable: bool = True
    needs: int = release.NEEDED


QUESTIONS: Mapping[str, Question] = {
    "supported_boot_devices": Question("management", "supported_boot_devices", locked=False),
    "get_boot_device": Question("management", "get_boot_device"),
    "set_boot_device": Question("management", "set_boot_device", order=True),
    "inject_nmi": Question("management", "inject_nmi", order=True, repeatable=False),
    "indicators": Question("management", "indicators", locked=False),
    "get_indicator": Question("management", "get_indicator"),
    "set_indicator": Question("management", "set_indicator", order=True),
    "virtual_media": Question("management", "virtual_media", locked=False),
    "get_console": Question("console", "get_console", locked=False),
    "call": Question("vendor", "call", order=True, repeatable=False),
    "call_shared": Question("vendor", "call", locked=False, repeatable=False),
}


class Told(ServiceError):
    """What a conductor answered instead of what was asked for."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        super().__init__(answer["message"])
        self.status = answer["status"]
        self.retry_after = answer["retry_after"]


def ask(runtime: Runtime, ident: str, what: str, /, **arguments: Any) -> Any:
    """
    The answer (JSON) to `what`, a key of `QUESTIONS`, about the node `ident`.

    Waits up to `[api]ask_timeout` seconds, a locked node included. Raises NotFound, NodeLocked,
    Told, GatewayTimeout, and Unavailable when no conductor serves the node, or too many requests of
    this process wait already.
    """
    end = time.monotonic() + runtime.settings.api.ask_timeout
    with given_away():
        return _when_free(runtime, lambda: _ask(runtime, ident, what, arguments, end))


def _when_free(runtime: Runtime, attempt: Callable[[], Any]) -> Any:
    """Try again, a little later, when the node is locked."""
    settings = runtime.settings.conductor
    for _ in range(settings.node_locked_retry_attempts - 1):
        try:
            return attempt()
        except (NodeLocked, Told) as error:
            if error.status != NodeLocked.status:
                raise
        time.sleep(settings.node_locked_retry_interval)
    return attempt()


def _ask(runtime: Runtime, ident: str, what: str, arguments: Mapping[str, Any], end: float) -> Any:
    question = QUESTIONS[what]
    with runtime.reading() as session:
        node = nodes.find(session, ident)
        if question.locked and node.reservation is not None:
            raise NodeLocked(node.uuid, node.reservation)
        member = conductors.owner_of(session, node, question.needs)
    document = {
        "node": node.uuid,
        "what": what,
        "arguments": dict(arguments),
        "version": question.needs,
    }
    answer = _Asked(runtime, node, question, document, end).answer_of(member)
    if "status" in answer:
        raise Told(answer)
    return answer["answer"]


@dataclass(slots=True)
class _Asked:
    """
    One question under way; end: by this process's monotonic clock. passed: incarnations that did
    not understand it.
    """

    runtime: Runtime
    node: Node
    question: Question
    document: Mapping[str, Any]
    end: float
    passed: set[str] = field(default_factory=set)

    def answer_of(self, member: Member) -> Mapping[str, Any]:
        """Ask a conductor, and whoever takes its place, until one has answered."""
        asks = self.runtime.asks
        if asks is None:
            raise Unavailable("This process has no way to ask a conductor.")
        asked, key = member, self._post(asks, member)
        while (left := self.end - time.monotonic()) > 0:
            answer = asks.receive(key, min(left, LOOK))
            if answer is not None and "understands" not in answer:
                return answer
            if answer is not None:  # of an earlier release, which must not have been asked
                self.passed.add(asked.incarnation)
            members = [
                each
                for each in conductors.members(self.runtime)
                if each.version >= self.question.needs and each.incarnation not in self.passed
            ]
            now = owner(self.node.uuid, self.node.driver, self.node.conductor_group, members)
            if now is None or now.incarnation == asked.incarnation:
                continue
            if answer is None and not asks.withdraw(key):  # it was begun
                if any(each.incarnation == asked.incarnation for each in members):
                    continue
                if not self.question.repeatable:
                    raise GatewayTimeout(
                        f"Conductor {asked.name} died while it carried out"
                        f" {self.document['what']} {self._about}; whether it did is not known."
                    )
            asked, key = now, self._post(asks, now)
        begun = not asks.withdraw(key)
        doubt = "; it may still be carried out" if begun and self.question.order else ""
        raise GatewayTimeout(
            f"Conductor {asked.name} did not answer within"
            f" {self.runtime.settings.api.ask_timeout:g} s to {self.document['what']}"
            f" {self._about}{doubt}."
        )

    def _post(self, asks: Asks, member: Member) -> str:
        key = str(uuid4())
        asks.post(member.name, key, self.document, max(self.end - time.monotonic(), 0.001))
        return key

    @property
    def _about(self) -> str:
        """The node, and how its BMC is reached."""
        info = self.node.driver_info
        bmc = next((info[key] for key in sorted(info) if key.endswith("_address")), "unknown")
        return f"of node {self.node.uuid} (BMC {bmc})"
