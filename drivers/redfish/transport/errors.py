"""
Translation of exceptions of sushy, and of reading malformed documents, to `HardwareError`s.

A command to a BMC raises `HardwareError`s only (`errors_of`). A command that reads many documents
may go on after a missing or malformed one (`skip_unreadable`).
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from drivers.core.errors import (
    Busy,
    HardwareError,
    InvalidDriverInfo,
    LoginRefused,
    NotSupported,
    Refused,
    Unexpected,
    Unreachable,
)
from drivers.net import answers
from drivers.redfish.transport.access import LOGIN_REFUSED, Access
from drivers.redfish.transport.bodies import MalformedDocument
from drivers.redfish.transport.conversions import entry, text
from drivers.redfish.transport.http_rules import BUSY
from drivers.redfish.transport.messages import Message, messages

logger = logging.getLogger(__name__)

#: Most characters of an error message.
_LONGEST = 1000
#: Names of messages that refuse a request only for now. Some BMCs have the name in the text.
_BUSY_MESSAGES = (
    "UnableToModifyDuringSystemPOST",  # HPE: the machine is in POST
    "SYS518",  # Dell: the BMC is not ready after the last operation
    "LC068", "SYS011", "RAC0679",  # Dell: another job runs, or is pending until the next start
    "ResourceInUse", "ServiceShuttingDown", "ServiceTemporarilyUnavailable",  # of DSP8011
    "SessionLimitExceeded",
)  # fmt: skip


class _Rule(NamedTuple):
    """Translation of a group of exceptions."""

    exceptions: tuple[type[Exception], ...]
    error: type[HardwareError]
    message: str  # template; `_translated` has its fields
    skippable: bool = False  # the BMC lacks the resource, or serves it malformed


@cache
def _rules() -> tuple[_Rule, ...]:
    """Return all rules; the first match applies."""
    from sushy import exceptions as theirs  # here: takes half a second, and only conductors need it

    malformed_errors = (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    )
    lacking_errors = (theirs.MissingActionError, theirs.MissingAttributeError)
    return (
        _Rule((theirs.ConnectionError,), Unreachable, "{bmc} did not answer ({cause})"),
        # one of several documents is unreadable; other errors of this module stay as they are
        _Rule((MalformedDocument,), MalformedDocument, "{error}", skippable=True),
        _Rule((theirs.AccessError,), LoginRefused, LOGIN_REFUSED),
        _Rule((theirs.ServerSideError,), Unexpected, "{bmc} failed: {words}"),
        _Rule((theirs.ResourceNotFoundError,), Refused, "{bmc}: {error}: {words}", skippable=True),
        _Rule((theirs.HTTPError,), Refused, "{bmc} refused: {words}", skippable=True),
        _Rule(lacking_errors, NotSupported, "{bmc}: {error}", skippable=True),
        _Rule((theirs.InvalidParameterValueError,), NotSupported, "{bmc}: {error}", skippable=True),
        _Rule(
            (theirs.UnknownDefaultError,),
            Unexpected,
            "{bmc} does not serve exactly one system: set driver_info/redfish_system_id",
        ),
        # no JSON, or a link that is no URL; sushy wraps errors of the network
        _Rule(
            (answers.Malformed,),
            Unexpected,
            "{bmc} sent a malformed document: {kind}: {error}",
            skippable=True,
        ),
        # of the file of trusted certificates
        _Rule((OSError,), InvalidDriverInfo, "driver_info/redfish_verify_ca: {error}"),
        _Rule(
            (theirs.SushyError, *malformed_errors),
            Unexpected,
            "{bmc} sent a malformed document: {kind}: {error}",
            skippable=True,
        ),
    )


@contextmanager
def errors_of(bmc: Access) -> Iterator[None]:
    """
    Translate the exceptions of commands inside.

    Raises HardwareError.
    """
    try:
        yield
    except HardwareError:
        raise
    except Exception as error:
        translated, _ = _translated(error, bmc)
        if translated is None:
            raise
        raise translated from error


@contextmanager
def skip_unreadable(bmc: Access, path: str) -> Iterator[None]:
    """Log and ignore errors inside if the BMC lacks the resource `path`, or serves it malformed."""
    try:
        yield
    except Exception as error:
        translated, skippable = _translated(error, bmc)
        if translated is None or not skippable:
            raise
        facts = {"url": f"{bmc.address}{path}", "reason": str(translated)}
        logger.warning("redfish.resource_skipped", extra=facts)


def _translated(error: Exception, bmc: Access) -> tuple[HardwareError | None, bool]:
    """Translate an exception; return the error (None if no rule matches) and `skippable`."""
    from sushy.exceptions import ConnectionError as Silence
    from sushy.exceptions import HTTPError

    cause = error.__context__ or error
    if isinstance(error, Silence) and isinstance(cause, ValueError):
        error = cause  # a link in a document is not a URL
    rule = next((rule for rule in _rules() if isinstance(error, rule.exceptions)), None)
    if rule is None:
        return None, False
    status = getattr(error, "status_code", None)
    words = entry(getattr(error, "body", None), "message")
    message = rule.message.format(
        bmc=f"BMC {bmc.address}",
        error=bmc.mask(str(error)),
        kind=type(error).__name__,
        cause=type(cause).__name__,
        status=status,
        words=bmc.mask(f"{status}: {words or getattr(error, 'code', '')}"),
    )
    if isinstance(error, HTTPError) and is_busy(error.status_code, messages({"error": error.body})):
        return Busy(text(message, _LONGEST) or "busy"), False
    return rule.error(text(message, _LONGEST) or "unknown error"), rule.skippable


def is_busy(status: int, bmc_messages: Iterable[Message]) -> bool:
    """Whether a refusal passes by itself, by its HTTP status and its messages."""
    texts = [f"{message.id} {message.text}" for message in bmc_messages]
    return status in BUSY or any(
        name in message_text for name in _BUSY_MESSAGES for message_text in texts
    )
