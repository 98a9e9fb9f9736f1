"""
Redfish: virtual media: insert an image, eject it, and see the effect.

The boot of a flow and the API's attach and detach use the same functions. A drive is
ejected before an image is inserted, also if the image seems to be in: some BMCs report an ejected
medium for a while, and a start would find the drive empty. After an insertion, a report that differs from the one
before it is believed; an equal one only if it persists.

Drives are tried in turn. One that refuses the image, or still does not present it after a while,
is emptied, and the next one is tried.
"""

import json
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from http import HTTPStatus
from itertools import chain
from typing import Any
from urllib.parse import unquote, urlsplit

from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    Busy,
    LoginRefused,
    NotSupported,
    Refused,
    Unconfirmed,
    Unexpected,
)
from drivers.core.steps import Done, Outcome, Wait
from drivers.core.target import Target
from drivers.redfish import client, parts, quirks
from drivers.redfish.client import Connection
from drivers.redfish.quirks import Difference
from drivers.redfish.values import entry, text

#: Ironic's name of a virtual medium -> MediaTypes, the preferred first
MEDIA = {"cdrom": ("CD", "DVD"), "disk": ("USBStick",), "floppy": ("Floppy",)}
#: Key of driver_internal_info: paths of the drives with an image of this service.
USED = "redfish_virtual_media"
#: Reads after which an insertion is ordered although the old medium is still reported.
EJECT_LOOKS = 3
#: Equal reports that confirm an insertion if the report before it was the same.
STALE_LOOKS = 4
#: Insertions into one drive at most: the BMC may still be ejecting, or failed (5xx).
TRIES = 3
#: Seconds for which a drive may present nothing while there are others to try.
IMPATIENCE = 10.0
#: Properties that some BMCs demand in an insertion -> their value for a URL. They are sent only if
#: a refusal names them: others refuse them (Supermicro X11).
_DEMANDED: Mapping[str, Mapping[str, Any]] = {
    "TransferProtocolType": {},  # filled from the URL
    "TransferMethod": {"TransferMethod": "Stream"},
    "UserName": {"UserName": "none", "Password": "none"},
    "WriteProtected": {"WriteProtected": True},
    "Inserted": {"Inserted": True},
}


@dataclass(frozen=True, slots=True)
class Report:
    """State of a drive, as the BMC reports it."""

    inserted: bool | None = None
    image: str | None = None
    connected: str | None = None  # ConnectedVia

    @classmethod
    def of(cls, document: object) -> "Report":
        inserted = entry(document, "Inserted")
        return cls(
            inserted if isinstance(inserted, bool) else None,
            text(entry(document, "Image"), longest=2048),
            text(entry(document, "ConnectedVia")),
        )

    @property
    def is_empty(self) -> bool:
        """Whether the BMC reports no medium."""
        if self.inserted is None:
            return self.image is None
        return not self.inserted or self.connected == "NotConnected"

    def presents(self, url: str) -> bool:
        """Whether the BMC reports the image of a URL; some report the end of the URL only."""
        if self.inserted is False or (self.inserted is None and self.image is None):
            return False
        return self.image is None or _is_end(self.image, url)

    def confirms(self, url: str, before: "Report", looks: int) -> bool:
        """
        Whether an insertion has taken place. before: the report before it. looks: reads since then.
        """
        if not self.presents(url):
            return False
        if before.inserted and before.connected == self.connected == "NotConnected":
            return False  # the ejected medium
        return self != before or (self.image is not None and looks >= STALE_LOOKS)


@dataclass(frozen=True, slots=True)
class Insertion:
    """Progress of an insertion, kept between polls."""

    drive: str = ""  # path of the present drive
    phase: str = "eject"  # eject, emptied, insert, task, look
    looks: int = 0  # reads in this phase
    tries: int = 0  # insertions into this drive
    before: Mapping[str, Any] = field(default_factory=dict)  # report before the insertion
    task: str | None = None  # path of the BMC's task
    refusal: str = ""  # last error of this drive
    failed: Mapping[str, str] = field(default_factory=dict)  # drive -> reason
    slow: tuple[str, ...] = ()  # those that presented nothing in `IMPATIENCE`
    second_round: bool = False  # of the slow drives, with all patience

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> "Insertion":
        known = {name: value for name, value in progress.items() if name != "waits_for"}
        return cls(**{**known, "slow": tuple(known.get("slow", ()))})


def insert(target: Target, bmcs: Bmcs, device_type: str, url: str) -> Outcome:
    """
    Part of a step: insert an image into a cdrom, disk or floppy; `Done` once the BMC presents it.

    Raises NotSupported: the BMC has no such drive.
    Raises Unexpected: no drive presents the image; names the reason of each.
    Raises HardwareError.
    """
    patience = float(target.options["redfish"]["vmedia_insert_timeout"])
    interval = float(target.options["redfish"]["vmedia_insert_poll_interval"])
    progress = Insertion.of(target.progress)
    with client.turn(target, bmcs) as bmc:
        drives = {drive.path: drive for drive in _candidates(bmc, device_type)}
        if not drives:
            raise NotSupported(_without_drive(bmc, target, device_type))
        while True:
            if progress.drive not in drives:
                progress = _next(target, bmc, progress, drives, url)
            is_short = len(drives) > 1 and not progress.second_round
            limit = min(patience, IMPATIENCE) if is_short else patience
            step = _Step(target, bmc, drives[progress.drive], url, limit, interval)
            following = step.take(progress)
            if following is None:
                return Done()
            progress, pause = following
            if pause:
                waits_for = f"virtual medium {_name(progress.drive)}"
                return Wait({**asdict(progress), "waits_for": waits_for}, poll_after=pause)


def eject(
    target: Target, bmcs: Bmcs, device_types: Collection[str], *, required: bool = True
) -> Outcome:
    """
    Part of a step: eject all media of these types; `Done` once the BMC reports none.

    Includes the drives that this service has used, also if the BMC reports them as empty.

    required: whether a medium that stays fails the step; else it is reported as a warning.

    Raises Refused: the BMC still presents a medium.
    Raises HardwareError.
    """
    interval = float(target.options["redfish"]["vmedia_insert_poll_interval"])
    patience = float(target.options["redfish"]["vmedia_insert_timeout"])
    looks = int(target.progress.get("looks", 0))
    refusals = dict(target.progress.get("refusals", {}))
    with client.turn(target, bmcs) as bmc:
        drives = _of_types(bmc, device_types)
        if not target.progress:
            used = set(_facts(target).get(USED) or ())
            for drive in drives:
                if drive.path in used or not Report.of(drive.json).is_empty:
                    refusals[drive.path] = _eject(target, bmc, drive)
            drives = [_fresh(drive) for drive in drives]
        stays = [drive for drive in drives if not Report.of(drive.json).is_empty]
    if not stays:
        _note_used(target, ())
        return Done()
    if looks * interval < (patience if required else IMPATIENCE):
        progress = {"looks": looks + 1, "refusals": refusals}
        waits_for = f"the ejection of {_name(stays[0].path)}"
        return Wait({**progress, "waits_for": waits_for}, poll_after=interval)
    reasons = (
        f"{_name(drive.path)} (ordered to eject it{_colon(refusals.get(drive.path))})"
        for drive in stays
    )
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


def listed(bmc: Connection) -> list[Any]:
    """
    Read all virtual drives, as resources of sushy: the system's, else its managers'.

    Raises NotSupported: the BMC has no virtual media.
    """
    system, is_there = bmc.system(fresh=False), False
    drives: list[Any] = []
    for owner in chain([system], parts.managers(bmc, system)):
        if parts.link(owner, "virtual_media") is None:
            continue
        is_there = True
        drives += parts.members(bmc, owner, "virtual_media")
        if owner is system and drives:
            break
    if not is_there:
        raise NotSupported(f"BMC {bmc.access.address} has no virtual media")
    return drives


def media_types(drive: Any) -> list[str]:
    """Return the MediaTypes of a drive; empty if the BMC reports none."""
    types = entry(drive.json, "MediaTypes")
    return [name for name in map(text, types) if name] if isinstance(types, list) else []


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of an insertion into one drive."""

    target: Target
    bmc: Connection
    drive: Any
    url: str
    patience: float  # seconds for which the drive may present nothing
    interval: float  # seconds between reads

    def take(self, progress: Insertion) -> tuple[Insertion, float] | None:
        """Return the progress and the pause before the next step; None: the image is presented."""
        phases = {
            "eject": self._eject,
            "emptied": self._await_ejection,
            "insert": self._insert,
            "task": self._await_task,
            "look": self._look,
        }
        return phases[progress.phase](progress)

    def _eject(self, progress: Insertion) -> tuple[Insertion, float]:
        _eject(self.target, self.bmc, self.drive)
        return replace(progress, phase="emptied", looks=0), 0

    def _await_ejection(self, progress: Insertion) -> tuple[Insertion, float]:
        report = Report.of(_fresh(self.drive).json)
        if not report.is_empty and progress.looks < EJECT_LOOKS:
            return replace(progress, looks=progress.looks + 1), self.interval / 2
        return replace(progress, phase="insert", looks=0, before=asdict(report)), 0

    def _insert(self, progress: Insertion) -> tuple[Insertion, float]:
        self.target.before_order()
        _note_used(self.target, (self.drive.path,))
        tried = replace(progress, tries=progress.tries + 1, phase="look", looks=0, refusal="")
        try:
            task = _insert(self.bmc, self.drive, self.url)
        except (Busy, LoginRefused):
            raise
        except (Unexpected, Unconfirmed) as error:  # perhaps it was carried out
            return replace(tried, refusal=str(error)), 0
        except (Refused, NotSupported) as error:
            refused = replace(tried, refusal=str(error))
            if Report(**progress.before).is_empty:
                return _give_up(refused), 0
            return self._again(refused)  # the BMC may still be ejecting the old medium
        return replace(tried, task=task, phase="task" if task else "look"), 0

    def _await_task(self, progress: Insertion) -> tuple[Insertion, float]:
        assert progress.task is not None
        failure = self.bmc.task_failure(progress.task)
        if failure == "" and progress.looks * self.interval < self.patience:
            return replace(progress, looks=progress.looks + 1), self.interval
        if failure == "":
            return _give_up(replace(progress, refusal="its task does not end")), 0
        if failure:
            return _give_up(replace(progress, refusal=failure)), 0
        return replace(progress, phase="look", looks=0), 0

    def _look(self, progress: Insertion) -> tuple[Insertion, float] | None:
        report = Report.of(_fresh(self.drive).json)
        looks = progress.looks + 1
        if report.confirms(self.url, Report(**progress.before), looks):
            return None
        looked = replace(progress, looks=looks)
        if progress.refusal and looks > 1:  # it failed, and has no effect
            return self._again(looked)
        if looks * self.interval < self.patience:
            return looked, self.interval
        ignored = replace(looked, refusal=f"it accepted, and reports {_said(report)}")
        return _give_up(ignored, is_slow=not progress.second_round), 0

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

    Raises Unexpected: no drive is left. The drives are emptied.
    """
    last = next(reversed(list(progress.failed)), "")
    if last in drives:  # it must not present the image later, beside another drive
        _eject(target, bmc, drives[last])
    for path in drives:
        if path not in progress.failed:
            return replace(progress, drive=path)
    if progress.slow and len(drives) > 1:
        failed = {
            path: progress.failed[path] for path in progress.failed if path not in progress.slow
        }
        return Insertion(drive=progress.slow[0], failed=failed, second_round=True)
    reasons = "; ".join(f"{_name(path)}: {progress.failed[path]}" for path in drives)
    raise Unexpected(
        f"no virtual medium of BMC {bmc.access.address} has {_redacted(url)}: {reasons}"
    )


def _of_types(bmc: Connection, device_types: Collection[str]) -> list[Any]:
    """Read the drives of these types; a drive without MediaTypes counts as a CD."""
    types = {name for kind in device_types for name in MEDIA[kind]}
    return [
        drive for drive in listed(bmc) if types.intersection(media_types(drive) or MEDIA["cdrom"])
    ]


def _candidates(bmc: Connection, device_type: str) -> list[Any]:
    """Read the drives to try for a device type, the most promising first."""
    first = Difference.MEDIUM_1 in quirks.of(bmc, {Difference.MEDIUM_1})
    preferred = MEDIA[device_type][0]

    def rank(drive: Any) -> tuple[bool, ...]:
        types = media_types(drive)
        return (
            first and entry(drive.json, "Id") != "1",
            _action(drive, "InsertMedia") is None,
            not types,
            preferred not in types,
        )

    return sorted(_of_types(bmc, {device_type}), key=rank)


def _without_drive(bmc: Connection, target: Target, device_type: str) -> str:
    return f"the BMC of node {target.uuid} has no virtual {device_type} drive"


def _insert(bmc: Connection, drive: Any, url: str) -> str | None:
    """
    Order a drive to insert an image; return the path of the BMC's task, if it has made one.

    Raises HardwareError.
    """
    from sushy import exceptions as theirs
    from sushy.taskmonitor import TaskMonitor

    connector, action = bmc.open()._conn, _action(drive, "InsertMedia")
    if action is None and Difference.NO_INSERTION in quirks.of(bmc, {Difference.NO_INSERTION}):
        raise NotSupported(
            "the firmware of this BMC cannot insert images by Redfish; update it, or use"
            " boot_interface ipxe, pxe or http-ipxe"
        )
    body: dict[str, Any] = {"Image": url}
    if action is None:
        body |= {"Inserted": True, "WriteProtected": True}
    with bmc.refusals():
        for _ in range(len(_DEMANDED) + 1):
            try:
                if action is None:
                    answer = connector.patch(drive.path, data=body, etag=drive._get_etag())
                else:
                    answer = connector.post(action, data=body)
                break
            except theirs.HTTPError as error:
                more = _demanded(error, body, url)
                if not more or error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    raise
                body |= more
        if answer.status_code != HTTPStatus.ACCEPTED:
            return None
        with suppress(theirs.MissingHeaderError, ValueError, AttributeError):
            return str(TaskMonitor.from_response(connector, answer, drive.path).task_monitor_uri)
    return None


def _demanded(error: Any, body: Mapping[str, Any], url: str) -> dict[str, Any]:
    """Return the first property that a refusal names, and that was not sent; empty: none."""
    words = json.dumps([error.body, error.detail], default=str)
    for name, values in _DEMANDED.items():
        if name in words and name not in body:
            return dict(values) or {name: urlsplit(url).scheme.upper()}
    return {}


def _eject(target: Target, bmc: Connection, drive: Any) -> str:
    """
    Order a drive to eject its medium; return the BMC's refusal, or "".

    BMCs refuse it for an empty drive, too, so the effect decides.

    Raises Unreachable, LoginRefused, Busy.
    """
    action = _action(drive, "EjectMedia")
    connector = bmc.open()._conn
    target.before_order()
    try:
        with bmc.refusals():
            if action is not None:
                connector.post(action, data={})
            else:
                body = {"Image": None, "Inserted": False}
                connector.patch(drive.path, data=body, etag=drive._get_etag())
    except (Busy, LoginRefused):
        raise
    except (Refused, NotSupported, Unexpected, Unconfirmed) as error:
        return str(error)
    return ""


def _action(drive: Any, name: str) -> str | None:
    """Return the path of an action of a drive; None: it does not have it."""
    action = entry(entry(drive.json, "Actions"), f"#VirtualMedia.{name}")
    return text(entry(action, "target"), longest=2048)


def _fresh(drive: Any) -> Any:
    drive.refresh(force=True)
    return drive


def _note_used(target: Target, paths: tuple[str, ...]) -> None:
    """Record the drives that may have an image of this service."""
    used = _facts(target).get(USED) or []
    noted = sorted({*used, *paths}) if paths else None
    if (noted or []) != used:
        target.report(driver_internal_info={USED: noted})


def _facts(target: Target) -> dict[str, Any]:
    """Return driver_internal_info with the reports of this step applied."""
    return {**target.driver_internal_info, **target.reports.get("driver_internal_info", {})}


def _is_end(image: str, url: str) -> bool:
    """Whether an image that the BMC reports is a URL, or its last parts; some leave the query."""
    reported, ordered = (_plain(value, query="?" in image) for value in (image, url))
    return ordered == reported or ordered.endswith("/" + reported.lstrip("/"))


def _plain(url: str, *, query: bool) -> str:
    """Return a URL without user and escapes."""
    try:
        split = urlsplit(url)
    except ValueError:
        return url
    place = split.netloc.rpartition("@")[2].lower()
    asked = f"?{split.query}" if query else ""
    return unquote(f"{split.scheme}://{place}{split.path}{asked}").removeprefix("://")


def _said(report: Report) -> str:
    if report.is_empty:
        return "no medium"
    return f"the medium {_redacted(report.image)}" if report.image else "an unknown medium"


def _redacted(url: str | None) -> str:
    """Return a URL for messages: without the secret name of a node's image, user and query."""
    split = urlsplit(url or "")
    return f"{split.scheme}://{split.netloc.rpartition('@')[2]}/...{split.path[-9:]}"


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _colon(reason: str | None) -> str:
    return f": {reason}" if reason else ""
