"""
Redfish: virtual media: insert an image, eject it, and see the effect.

The boot of a flow and the API's attach and detach use the same functions. A drive is
emptied before an image is inserted, also if the image seems to be in: some BMCs report an ejected
medium for a while, and a start would find nothing. After an insertion, a report that differs from
the one before is believed; an equal one only if it persists.

Drives are tried in turn. One that refuses the image, or still does not present it after a while,
is emptied, and the next one is tried.
"""

import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    LoginRefused,
    NotSupported,
    Refused,
    Unconfirmed,
    Unexpected,
    WithoutEffect,
)
from drivers.core.steps import AWAITED, Done, Outcome, Wait
from drivers.core.target import Target
from drivers.redfish.booting import virtual_drives
from drivers.redfish.booting.virtual_drives import Report
from drivers.redfish.changes import tasks
from drivers.redfish.changes.order_answers import Answer, Result
from drivers.redfish.changes.tasks import End
from drivers.redfish.transport import client
from drivers.redfish.transport.client import Connection
from drivers.redfish.transport.conversions import last_part

if TYPE_CHECKING:
    from sushy.resources.manager.virtual_media import VirtualMedia


#: Key of driver_internal_info: paths of the drives with an image of this service.
USED = "redfish_virtual_media"
#: Reads after which a medium that is still reported is ordered to be ejected again, and after which
#: an insertion is ordered although the old medium is still reported.
EJECT_LOOKS = 3
#: Insertions into one drive at most: the BMC may still be ejecting, or failed (5xx).
TRIES = 3
#: Seconds for which a drive may present nothing while there are others to try.
IMPATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Insertion:
    """Progress of an insertion, kept between polls."""

    drive: str = ""  # path of the present drive
    phase: str = "eject"  # eject, emptied, insert, task, look
    looks: int = 0  # reads in this phase
    tries: int = 0  # insertions into this drive
    waits: int = 0  # of them refused for now
    before: Mapping[str, Any] = field(default_factory=dict)  # report before the insertion
    task: str | None = None  # path of the BMC's task
    seen: str = ""  # `tasks.Seen` of the task
    refusal: str = ""  # last error of this drive
    failed: Mapping[str, str] = field(default_factory=dict)  # drive -> reason
    slow: tuple[str, ...] = ()  # those that presented nothing in `IMPATIENCE`
    second_round: bool = False  # of the slow drives, with all patience

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> "Insertion":
        fields = {name: value for name, value in progress.items() if name != AWAITED}
        return cls(**{**fields, "slow": tuple(fields.get("slow", ()))})


def insert(target: Target, bmcs: Bmcs, device_type: str, url: str) -> Outcome:
    """
    Part of a step: insert an image into a cdrom, disk or floppy; `Done` once the BMC presents it.

    Raises NotSupported: the BMC has no such drive.
    Raises WithoutEffect: no drive presents the image; names the reason of each.
    Raises HardwareError.
    """
    patience = float(target.options["redfish"]["vmedia_insert_timeout"])
    interval = float(target.options["redfish"]["vmedia_insert_poll_interval"])
    progress = Insertion.of(target.progress)
    with client.turn(target, bmcs) as bmc:
        drives = {drive.path: drive for drive in virtual_drives.candidates(bmc, device_type)}
        if not drives:
            raise NotSupported(f"the BMC of node {target.uuid} has no virtual {device_type} drive")
        while True:
            if progress.drive not in drives:
                progress = _next(target, bmc, progress, drives, url)
            is_short = len(drives) > 1 and not progress.second_round
            limit = min(patience, IMPATIENCE) if is_short else patience
            step = _Step(target, bmc, drives[progress.drive], url, limit, interval)
            transition = step.take(progress)
            if transition is None:
                return Done()
            progress, pause = transition
            if pause:
                waits_for = f"virtual medium {last_part(progress.drive)}"
                return Wait({**asdict(progress), AWAITED: waits_for}, poll_after=pause)


def eject(
    target: Target, bmcs: Bmcs, device_types: Collection[str], *, required: bool = True
) -> Outcome:
    """
    Part of a step: eject all media of these types; `Done` once the BMC reports none.

    Includes the drives that this service has used, also if the BMC reports them as empty. A drive
    that still presents a medium is ordered again: the order or its answer may have been lost.

    required: whether a medium that stays fails the step; else it is reported as a warning.

    Raises Refused: the BMC still presents a medium.
    Raises HardwareError.
    """
    interval = float(target.options["redfish"]["vmedia_insert_poll_interval"])
    patience = float(target.options["redfish"]["vmedia_insert_timeout"])
    looks = int(target.progress.get("looks", 0))
    refusals = dict(target.progress.get("refusals", {}))
    with client.turn(target, bmcs) as bmc:
        drives = virtual_drives.of_types(bmc, device_types)
        if looks % EJECT_LOOKS == 0:
            used_paths = set() if looks else set(target.internal_fact(USED) or ())
            for drive in drives.usable:
                if drive.path in used_paths or not Report.of(drive.json).is_empty:
                    refusals[drive.path] = virtual_drives.order_ejection(target, bmc, drive)
            for drive in drives.usable:
                virtual_drives.read_again(drive)
        stays = [drive.path for drive in drives.usable if not Report.of(drive.json).is_empty]
    if not stays and not drives.stuck:
        _note_used(target, ())
        return Done()
    if looks * interval < (patience if required else IMPATIENCE):
        progress = {"looks": looks + 1, "refusals": refusals}
        waits_for = f"the ejection of {last_part([*stays, *drives.stuck][0])}"
        return Wait({**progress, AWAITED: waits_for}, poll_after=interval)
    reasons = [
        *(f"{last_part(path)} (ordered to eject it{_colon(refusals.get(path))})" for path in stays),
        *(f"{last_part(path)} (not ordered: its document is malformed)" for path in drives.stuck),
    ]
    message = f"BMC {bmc.access.address} still presents a virtual medium in {', '.join(reasons)}"
    if required:
        raise Refused(message)
    target.report(boot_warning=message)
    return Done({"warning": message})


def eject_now(target: Target, bmcs: Bmcs, device_types: Collection[str]) -> None:
    """Run `eject` to its end, for a call that is answered at once. Raises HardwareError."""
    outcome = eject(target, bmcs, device_types)
    while isinstance(outcome, Wait):
        time.sleep(outcome.poll_after or 0)
        outcome = eject(replace(target, progress=outcome.progress), bmcs, device_types)


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of an insertion into one drive."""

    target: Target
    bmc: Connection
    drive: "VirtualMedia"
    url: str
    patience: float  # seconds for which the drive may present nothing
    interval: float  # seconds between reads

    def take(self, progress: Insertion) -> tuple[Insertion, float] | None:
        """
        Return the progress and the pause before the next step; None once the image is presented.
        """
        phases = {
            "eject": self._eject,
            "emptied": self._await_ejection,
            "insert": self._insert,
            "task": self._await_task,
            "look": self._look,
        }
        return phases[progress.phase](progress)

    def _eject(self, progress: Insertion) -> tuple[Insertion, float]:
        virtual_drives.order_ejection(self.target, self.bmc, self.drive)
        return replace(progress, phase="emptied", looks=0), 0

    def _await_ejection(self, progress: Insertion) -> tuple[Insertion, float]:
        report = Report.of(virtual_drives.read_again(self.drive).json)
        if not report.is_empty and progress.looks < EJECT_LOOKS:
            return replace(progress, looks=progress.looks + 1), self.interval / 2
        return replace(progress, phase="insert", looks=0, before=asdict(report)), 0

    def _insert(self, progress: Insertion) -> tuple[Insertion, float]:
        self.target.before_order()
        _note_used(self.target, (self.drive.path,))
        next_progress = replace(
            progress, tries=progress.tries + 1, phase="look", looks=0, refusal=""
        )
        try:
            answer = virtual_drives.order_insertion(self.bmc, self.drive, self.url)
        except LoginRefused:
            raise
        except (Unexpected, Unconfirmed) as error:
            answer = Answer(Result.UNKNOWN, words=str(error))
        except (NotSupported, Refused) as error:
            answer = Answer(Result.REFUSED, words=str(error))
        match answer.result:
            case Result.TASK:
                return replace(next_progress, task=answer.paths[0], phase="task"), 0
            case Result.DONE | Result.UNKNOWN:  # an unknown one was perhaps carried out
                return replace(next_progress, refusal=answer.words), 0
            case Result.BUSY if progress.waits * self.interval < self.patience:
                waits = progress.waits + 1
                return replace(progress, waits=waits, refusal=answer.words), self.interval
        refused_progress = replace(next_progress, refusal=answer.words)
        if Report(**progress.before).is_empty:
            return _give_up(refused_progress), 0
        return self._again(refused_progress)  # the BMC may still be ejecting the old medium

    def _await_task(self, progress: Insertion) -> tuple[Insertion, float]:
        assert progress.task is not None
        look = tasks.look(self.bmc, progress.task, tasks.Seen(progress.seen))
        if look.end is End.FAILED:
            return _give_up(replace(progress, refusal=look.words)), 0
        if look.end not in (End.RUNNING, End.UNREADABLE):  # the drive tells the effect
            return replace(progress, phase="look", looks=0), 0
        if progress.looks * self.interval >= self.patience:
            return _give_up(replace(progress, refusal="its task does not end")), 0
        return replace(progress, seen=look.seen, looks=progress.looks + 1), self.interval

    def _look(self, progress: Insertion) -> tuple[Insertion, float] | None:
        report = Report.of(virtual_drives.read_again(self.drive).json)
        looks = progress.looks + 1
        if report.confirms(self.url, Report(**progress.before), looks):
            return None
        polled_progress = replace(progress, looks=looks)
        if progress.refusal and looks > 1:  # it failed, and has no effect
            return self._again(polled_progress)
        if looks * self.interval < self.patience:
            return polled_progress, self.interval
        ignored_progress = replace(
            polled_progress, refusal=f"it accepted, and reports {_said(report)}"
        )
        return _give_up(ignored_progress, is_slow=not progress.second_round), 0

    def _again(self, progress: Insertion) -> tuple[Insertion, float]:
        """Empty the drive and try it once more, or leave it."""
        if progress.tries >= TRIES:
            return _give_up(progress), 0
        return replace(progress, phase="eject", looks=0), self.interval


def _give_up(progress: Insertion, *, is_slow: bool = False) -> Insertion:
    """Leave the present drive with its last error."""
    return Insertion(
        failed={**progress.failed, progress.drive: progress.refusal},
        slow=(*progress.slow, progress.drive) if is_slow else progress.slow,
        second_round=progress.second_round,
    )


def _next(
    target: Target, bmc: Connection, progress: Insertion, drives: Mapping[str, Any], url: str
) -> Insertion:
    """
    Return the progress with the next drive: an untried one, else once more a slow one.

    Raises WithoutEffect: no drive is left. The drives are emptied.
    """
    last_path = next(reversed(list(progress.failed)), "")
    if last_path in drives:  # it must not present the image later, beside another drive
        virtual_drives.order_ejection(target, bmc, drives[last_path])
    for path in drives:
        if path not in progress.failed:
            return replace(progress, drive=path)
    if progress.slow and len(drives) > 1:
        failed = {
            path: progress.failed[path] for path in progress.failed if path not in progress.slow
        }
        return Insertion(drive=progress.slow[0], failed=failed, second_round=True)
    reasons = "; ".join(f"{last_part(path)}: {progress.failed[path]}" for path in drives)
    raise WithoutEffect(
        f"no virtual medium of BMC {bmc.access.address} has {_redacted(url)}: {reasons}"
    )


def _note_used(target: Target, paths: tuple[str, ...]) -> None:
    """Record the drives that may have an image of this service."""
    used_paths = target.internal_fact(USED) or []
    recorded_paths = sorted({*used_paths, *paths}) if paths else None
    if (recorded_paths or []) != used_paths:
        target.report(driver_internal_info={USED: recorded_paths})


def _said(report: Report) -> str:
    if report.is_empty:
        return "no medium"
    return f"the medium {_redacted(report.image)}" if report.image else "an unknown medium"


def _redacted(url: str | None) -> str:
    """Return a URL for messages: without the secret name of a node's image, user and query."""
    split = urlsplit(url or "")
    return f"{split.scheme}://{split.netloc.rpartition('@')[2]}/...{split.path[-9:]}"


def _colon(reason: str | None) -> str:
    return f": {reason}" if reason else ""
