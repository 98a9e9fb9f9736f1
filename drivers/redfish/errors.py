"""
Errors of a BMC: one table translates sushy's exceptions, and those of reading malformed documents.

A command to a BMC raises `HardwareError`s only (`errors_of`). A document that is missing or
malformed need not end the command that reads many (`gap`).
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from drivers.core.errors import (
    HardwareError,
    InvalidDriverInfo,
    NotSupported,
    Refused,
    Unexpected,
    Unreachable,
)
from drivers.redfish.access import NO_ENTRY, Access
from drivers.redfish.values import text

logger = logging.getLogger(__name__)

#: Characters of an error that are kept.
_LONGEST = 1000


class _Rule(NamedTuple):
    """
    The translation of one kind of exception.

    says: the message; see `_translated` for what it may name. gap: the BMC lacks the resource, or
    serves it malformed, so that asking again does not help.
    """

    exceptions: tuple[type[Exception], ...]
    error: type[HardwareError]
    says: str
    gap: bool = False


@cache
def _rules() -> tuple[_Rule, ...]:
    """The rules; the first that matches counts."""
    from sushy import exceptions as theirs  # takes half a second, and only conductors need it

    malformed = (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    )
    lacking = (theirs.MissingActionError, theirs.MissingAttributeError)
    return (
        _Rule((theirs.ConnectionError,), Unreachable, "{bmc} did not answer ({cause})"),
        _Rule((theirs.AccessError,), Refused, NO_ENTRY),
        _Rule((theirs.ServerSideError,), Unexpected, "{bmc} failed: {words}"),
        _Rule((theirs.ResourceNotFoundError,), Refused, "{bmc}: {error}", gap=True),
        _Rule((theirs.HTTPError,), Refused, "{bmc} refused: {words}", gap=True),
        _Rule(lacking, NotSupported, "{bmc}: {error}", gap=True),
        _Rule((theirs.InvalidParameterValueError,), NotSupported, "{bmc}: {error}", gap=True),
        _Rule(
            (theirs.UnknownDefaultError,),
            Unexpected,
            "{bmc} does not serve exactly one system: set driver_info/redfish_system_id",
        ),
        # of the file of authorities: sushy wraps those of the network
        _Rule((OSError,), InvalidDriverInfo, "driver_info/redfish_verify_ca: {error}"),
        _Rule(
            (theirs.SushyError, *malformed),
            Unexpected,
            "{bmc} sent a malformed document: {kind}: {error}",
            gap=True,
        ),
    )


@contextmanager
def errors_of(bmc: Access) -> Iterator[None]:
    """Raise HardwareErrors only, for all that goes wrong with the BMC inside."""
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
def gap(bmc: Access, path: str) -> Iterator[None]:
    """Go on after this block, and log it, when the BMC lacks `path` or serves it malformed."""
    try:
        yield
    except Exception as error:
        translated, is_gap = _translated(error, bmc)
        if translated is None or not is_gap:
            raise
        facts = {"url": f"{bmc.address}{path}", "reason": str(translated)}
        logger.warning("redfish.left_out", extra=facts)


def _translated(error: Exception, bmc: Access) -> tuple[HardwareError | None, bool]:
    """An exception as one of ours, and whether it is a gap; None for a defect elsewhere."""
    from sushy.exceptions import ConnectionError as Silence

    cause = error.__context__ or error
    if isinstance(error, Silence) and isinstance(cause, ValueError):
        error = cause  # a link that is no URL
    rule = next((each for each in _rules() if isinstance(error, each.exceptions)), None)
    if rule is None:
        return None, False
    status = getattr(error, "status_code", None)
    said = rule.says.format(
        bmc=f"BMC {bmc.address}",
        error=bmc.scrub(str(error)),
        kind=type(error).__name__,
        cause=type(cause).__name__,
        status=status,
        words=bmc.scrub(
            f"{status}: {getattr(error, 'detail', None) or getattr(error, 'code', '')}"
        ),
    )
    return rule.error(text(said, _LONGEST) or "unknown error"), rule.gap
