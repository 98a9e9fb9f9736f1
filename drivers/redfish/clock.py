"""
Redfish: the clock of the BMC, in steps of the management interface.

The reference is the conductor's clock, so the hosts of conductors need NTP. It decides here
because an operator asks for that comparison: with a step, or with
`[redfish]enable_verify_bmc_clock`. A BMC with a wrong clock refuses certificates.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from drivers.core.bmc import Bmcs
from drivers.core.errors import BadArgument, NotSupported, Unconfirmed, Unexpected
from drivers.core.steps import Arg, Done, Failed, Flow, Outcome, Step, Wait, step
from drivers.core.target import Target
from drivers.redfish.transport import client, navigation
from drivers.redfish.transport.conversions import text
from drivers.redfish.transport.errors import errors_of

if TYPE_CHECKING:
    from sushy.resources.manager.manager import Manager

#: Seconds that a clock may differ, without another tolerance.
TOLERANCE = 1.0
#: Seconds that a clock may differ from the time it was set to, reads of it, seconds between them.
_SETTLED, _READS, _PAUSE = 5.0, 5, 2.0
_TIME = {"type": ["string", "null"]}


class BmcClock:
    """Steps that set and verify the BMC's clock; a part of RedfishManagement."""

    bmcs: Bmcs

    @step(
        clean=0,
        service=0,
        needs_ramdisk=False,
        args=(
            Arg(
                "target_datetime",
                "Time in ISO 8601, with its UTC offset; now if missing",
                schema=_TIME,
            ),
            Arg(
                "datetime_local_offset",
                "Offset of local time from UTC, such as +02:00",
                schema=_TIME,
            ),
        ),
    )
    def set_bmc_clock(
        self,
        target: Target,
        target_datetime: str | None = None,
        datetime_local_offset: str | None = None,
    ) -> Outcome:
        """Set the BMC's clock, and wait until the BMC shows that time."""
        seconds_ahead = 0.0
        if target_datetime is not None:
            seconds_ahead = (_parsed(target_datetime) - datetime.now(UTC)).total_seconds()
        return self._adjust(target, seconds_ahead, datetime_local_offset, _SETTLED)

    @step(
        verify=2,
        clean=0,
        service=0,
        needs_ramdisk=False,
        args=(
            Arg(
                "tolerance",
                "Seconds that the clock may differ from the conductor's; 1 if missing",
                schema={"type": "number", "minimum": 0, "maximum": 86400},
            ),
        ),
    )
    def verify_bmc_clock(self, target: Target, tolerance: float = TOLERANCE) -> Outcome:
        """Compare the BMC's clock with the conductor's, and set it if they differ."""
        if not target.progress:
            with client.turn(target, self.bmcs) as bmc:
                difference = _difference(_manager(bmc), 0.0)
            if abs(difference) <= tolerance:
                return Done({"difference": difference})
        return self._adjust(target, 0.0, None, tolerance)

    def _adjust(
        self, target: Target, seconds_ahead: float, local_offset: str | None, tolerance: float
    ) -> Outcome:
        """
        Order a time, then read the clock until it shows that time.

        seconds_ahead: seconds by which the time is ahead of the conductor's clock; the progress
        keeps it.
        """
        progress = dict(target.progress) or {"ahead": seconds_ahead, "reads": 0}
        with client.turn(target, self.bmcs) as bmc:
            manager = _manager(bmc)
            if not target.progress:
                time = datetime.now(UTC) + timedelta(seconds=seconds_ahead)
                if not _time(manager).microsecond:
                    time = time.replace(microsecond=0)
                target.before_order()
                with suppress(Unconfirmed), errors_of(bmc.access):  # the clock shows the result
                    manager.set_datetime(time.isoformat(), local_offset)
            difference = _difference(manager, progress["ahead"])
            offset = text(manager.datetimelocaloffset)
        if abs(difference) <= tolerance and local_offset in (None, offset):
            return Done({"difference": difference})
        progress["reads"] += 1
        if progress["reads"] < _READS:
            return Wait(progress, poll_after=_PAUSE, timeout=_READS * _PAUSE * 10)
        return Failed(
            "the BMC has accepted a time that it does not show: its clock differs by"
            f" {difference:.0f} s, its local offset is {offset}"
        )


def planned(target: Target | None, flow: Flow, steps: list[Step]) -> list[Step]:
    """Return the steps of a flow; a verification has the clock's only by the setting."""
    if flow is not Flow.VERIFY or target is None:
        return steps
    if target.options["redfish"]["enable_verify_bmc_clock"]:
        return steps
    return [step for step in steps if step.name != BmcClock.verify_bmc_clock.__name__]


def _manager(bmc: client.Connection) -> "Manager":
    """
    Read the manager that has the clock.

    Raises NotSupported: no manager of the system has one.
    """
    system = bmc.system(fresh=False)
    for manager in navigation.managers(bmc, system):
        if manager.datetime is not None:
            manager.refresh(force=True)
            return manager
    raise NotSupported(f"BMC {bmc.access.address} shows no clock (DateTime of a manager)")


def _difference(manager: "Manager", seconds_ahead: float) -> float:
    """
    Return the seconds by which the clock is ahead of (negative: behind) its time.

    seconds_ahead: seconds by which its time is ahead of the conductor's clock. A BMC that shows
    whole seconds is believed to be anywhere within the second.
    """
    bmc_time = _time(manager)
    difference = (bmc_time - (datetime.now(UTC) + timedelta(seconds=seconds_ahead))).total_seconds()
    within = 0.0 if bmc_time.microsecond else 1.0
    return difference if difference > 0 else min(difference + within, 0.0)


def _time(manager: "Manager") -> datetime:
    """
    Return the time that a manager shows.

    Raises Unexpected: it is malformed, or has no UTC offset.
    """
    time_text = text(manager.datetime) or ""
    try:
        time = datetime.fromisoformat(time_text)
    except ValueError:
        raise Unexpected(f"{manager.path}: DateTime {time_text!r} is malformed") from None
    if time.tzinfo is None:
        raise Unexpected(f"{manager.path}: DateTime {time_text!r} has no UTC offset")
    return time


def _parsed(value: str) -> datetime:
    """Return the time of an argument. Raises BadArgument."""
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise BadArgument(
            f"management.set_bmc_clock: target_datetime: {value!r} is no time of ISO 8601 with an"
            " offset from UTC, such as 2026-01-31T12:00:00+00:00"
        )
    return time
