"""Redfish: messages in the documents of a BMC: of errors, tasks, jobs and settings."""

from collections.abc import Iterator
from typing import NamedTuple

from drivers.redfish.transport.conversions import entry, text

#: Most messages of one document that are read.
_MOST = 50
#: Most characters of a message.
_LONGEST = 300
#: Last parts of message ids that report success without a severity.
_SUCCESSES = frozenset(
    {"Success", "Created", "NoOperation", "UpdateSuccessful", "TaskCompletedOK", "AccountModified"}
)


class Message(NamedTuple):
    """A message; its texts are "" where the BMC has none."""

    id: str  # such as Base.1.8.Success
    text: str
    severity: str  # OK, Warning, Critical

    @property
    def name(self) -> str:
        """The last part of the id, without registry and version."""
        return self.id.rpartition(".")[2]

    @property
    def is_error(self) -> bool:
        return self.severity == "Critical" or (not self.severity and self.name == "GeneralError")

    @property
    def is_good(self) -> bool:
        return self.severity in ("OK", "Warning") or self.name in _SUCCESSES


def messages(document: object) -> list[Message]:
    """
    Return the messages of a document.

    They are in `error`, `@Message.ExtendedInfo`, `Messages` (tasks, settings), or, at a job of
    Dell, the document itself is one.
    """
    error = entry(document, "error")
    bmc_messages = list(_listed(entry(error, "@Message.ExtendedInfo")))
    bmc_messages += _listed(entry(document, "@Message.ExtendedInfo"))
    bmc_messages += _listed(entry(document, "Messages"))
    if not bmc_messages and error is not None:
        bmc_messages = [_message(entry(error, "code"), entry(error, "message"), None)]
    if not bmc_messages and entry(document, "MessageId") is not None:
        bmc_messages = list(_listed([document]))
    return bmc_messages[:_MOST]


def words(bmc_messages: list[Message]) -> str:
    """Return the texts of the errors among messages, else of all; "" if there are none."""
    errors = [message for message in bmc_messages if message.is_error] or bmc_messages
    return "; ".join(
        dict.fromkeys(filter(None, (message.text or message.id for message in errors)))
    )


def _listed(items: object) -> Iterator[Message]:
    for item in items[:_MOST] if isinstance(items, list) else [items]:
        names = (entry(item, "MessageId"), entry(item, "Message"))
        severity = entry(item, "MessageSeverity") or entry(item, "Severity")
        if any(text(name) for name in names):
            yield _message(*names, severity)


def _message(name: object, content: object, severity: object) -> Message:
    return Message(text(name) or "", text(content, _LONGEST) or "", text(severity) or "")
