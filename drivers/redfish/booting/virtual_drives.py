"""
Redfish: drives for virtual media: their reports, and orders to one of them.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from drivers.core.errors import LoginRefused, NotSupported, Refused, Unconfirmed, Unexpected
from drivers.core.target import Target
from drivers.redfish.booting import quirks
from drivers.redfish.booting.quirks import Difference
from drivers.redfish.changes.order_answers import Answer, Result, answer_of
from drivers.redfish.transport import navigation
from drivers.redfish.transport.client import Connection, Reply
from drivers.redfish.transport.conversions import elements, entry, is_present, text

if TYPE_CHECKING:
    from sushy.resources.manager.virtual_media import VirtualMedia


#: Ironic's name of a virtual medium -> MediaTypes, the preferred first
MEDIA = {"cdrom": ("CD", "DVD"), "disk": ("USBStick",), "floppy": ("Floppy",)}
#: Equal reports that confirm an insertion if the report before it was the same.
STALE_LOOKS = 4
#: Properties that some BMCs demand in an insertion -> their value for a URL. They are sent only if
#: a refusal names them: others refuse them (Supermicro X11).
_DEMANDED: Mapping[str, Mapping[str, object]] = {
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
            text(entry(document, "Image"), max_length=2048),
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

    def confirms(self, url: str, previous: "Report", looks: int) -> bool:
        """
        Whether an insertion has taken place. previous: the report before it. looks: reads since
        then.
        """
        if not self.presents(url):
            return False
        if previous.inserted and previous.connected == self.connected == "NotConnected":
            return False  # the ejected medium
        return self != previous or (self.image is not None and looks >= STALE_LOOKS)


@dataclass(frozen=True, slots=True)
class Drives:
    """Virtual drives of a BMC, as resources of sushy."""

    usable: list["VirtualMedia"]
    #: Path -> document of those that present a medium, and are malformed otherwise: they take no
    #: orders.
    stuck: dict[str, Mapping[str, Any]]


def listed(bmc: Connection) -> Drives:
    """
    Read all virtual drives: the system's, else its managers'.

    Raises NotSupported: the BMC has no virtual media.
    Raises Unexpected: a list of them cannot be read; it may have a drive with a medium.
    """
    system = bmc.system(fresh=False)
    drives = Drives([], {})
    collections = {}  # path -> whether it was read
    for owner in chain([system], navigation.managers(bmc, system)):
        path = navigation.link(owner, "virtual_media")
        if path is None:
            continue
        collections[path] = False
        with suppress(NotSupported), bmc.skip_unreadable(path):
            collection = navigation.part(owner, "virtual_media")
            collections[path] = isinstance(entry(collection.json, "Members"), list)
            paths = collection.members_identities
            usable_drives = list(navigation.readable(bmc, paths, collection.get_member))
            drives.usable.extend(usable_drives)
            omitted_paths = {*paths} - {drive.path for drive in usable_drives}
            drives.stuck.update(_with_medium(bmc, sorted(omitted_paths)))
        if owner is system and drives.usable:
            break
    if not collections:
        raise NotSupported(f"BMC {bmc.access.address} has no virtual media")
    if not drives.usable and not all(collections.values()):
        unread_collections = ", ".join(
            path for path, was_read in collections.items() if not was_read
        )
        raise Unexpected(
            f"BMC {bmc.access.address} does not list its virtual media: {unread_collections}"
        )
    return drives


def _with_medium(bmc: Connection, paths: Iterable[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield path and document of drives that present a medium, as far as they can be read."""
    for path in paths:
        document = bmc.find(path)
        if document is not None and is_present(document) and not Report.of(document).is_empty:
            yield path, document


def media_types(document: object) -> list[str]:
    """Return the MediaTypes of a drive; empty if the BMC reports none."""
    return [name for name in map(text, elements(document, "MediaTypes")) if name]


def of_types(bmc: Connection, device_types: Collection[str]) -> Drives:
    """Read the drives of these types; a drive without MediaTypes counts as a CD."""
    types = {name for kind in device_types for name in MEDIA[kind]}

    def is_of_types(document: object) -> bool:
        return not types.isdisjoint(media_types(document) or MEDIA["cdrom"])

    drives = listed(bmc)
    return Drives(
        [drive for drive in drives.usable if is_of_types(drive.json)],
        {path: document for path, document in drives.stuck.items() if is_of_types(document)},
    )


def candidates(bmc: Connection, device_type: str) -> list["VirtualMedia"]:
    """Read the drives to try for a device type, the most promising first."""
    wants_first = Difference.MEDIUM_1 in quirks.of(bmc, {Difference.MEDIUM_1})
    preferred = MEDIA[device_type][0]

    def rank(drive: "VirtualMedia") -> tuple[bool, ...]:
        types = media_types(drive.json)
        return (
            wants_first and entry(drive.json, "Id") != "1",
            _action(drive, "InsertMedia") is None,
            not types,
            preferred not in types,
        )

    return sorted(of_types(bmc, {device_type}).usable, key=rank)


def order_insertion(bmc: Connection, drive: "VirtualMedia", url: str) -> Answer:
    """
    Order a drive to insert an image; return the BMC's answer.

    Raises NotSupported: this firmware cannot insert images.
    Raises HardwareError: it was not sent, or its answer was lost.
    """
    action = _action(drive, "InsertMedia")
    if action is None and Difference.NO_INSERTION in quirks.of(bmc, {Difference.NO_INSERTION}):
        raise NotSupported(
            "the firmware of this BMC cannot insert images by Redfish; update it, or use"
            " boot_interface ipxe, pxe or http-ipxe"
        )
    body: dict[str, object] = {"Image": url}
    if action is None:
        body |= {"Inserted": True, "WriteProtected": True}
    while True:
        reply = _order(bmc, drive, action, body)
        answer = answer_of(reply, action or drive.path)
        demanded = _demanded(reply.document, body, url)
        if answer.result is not Result.REFUSED or not demanded:
            return answer
        body |= demanded


def _order(
    bmc: Connection, drive: "VirtualMedia", action: str | None, body: Mapping[str, object]
) -> Reply:
    """Send an order to a drive once: by its action, else by a change of its properties."""
    if action is None:
        return bmc.order("PATCH", drive.path, body, drive._get_etag())
    return bmc.order("POST", action, body)


def _demanded(refusal: object, body: Mapping[str, object], url: str) -> dict[str, object]:
    """Return the first property that a refusal names, and that was not sent; empty: none."""
    words = json.dumps(refusal)
    for name, values in _DEMANDED.items():
        if name in words and name not in body:
            return dict(values) or {name: urlsplit(url).scheme.upper()}
    return {}


def order_ejection(target: Target, bmc: Connection, drive: "VirtualMedia") -> str:
    """
    Order a drive to eject its medium; return the BMC's words if it did not accept, or "".

    BMCs refuse it for an empty drive, too, and an answer may be lost: the effect decides. The order
    may be sent again, as an empty drive stays empty.

    Raises Unreachable: it was not sent.
    Raises LoginRefused.
    """
    action = _action(drive, "EjectMedia")
    body = {"Image": None, "Inserted": False} if action is None else {}
    target.before_order()
    try:
        return answer_of(_order(bmc, drive, action, body), action or drive.path).words
    except LoginRefused:
        raise
    except (Unconfirmed, Unexpected, Refused) as error:
        return str(error)


def _action(drive: "VirtualMedia", name: str) -> str | None:
    """Return the path of an action of a drive, if it has the action."""
    action = entry(drive.json, "Actions", f"#VirtualMedia.{name}")
    return text(entry(action, "target"), max_length=2048)


def read_again(drive: "VirtualMedia") -> "VirtualMedia":
    drive.refresh(force=True)
    return drive


def _is_end(image: str, url: str) -> bool:
    """Whether an image that the BMC reports is a URL, or its last parts; some leave the query."""
    reported_url, ordered_url = (_plain(value, query="?" in image) for value in (image, url))
    return ordered_url == reported_url or ordered_url.endswith("/" + reported_url.lstrip("/"))


def _plain(url: str, *, query: bool) -> str:
    """Return a URL without user and escapes."""
    try:
        split = urlsplit(url)
    except ValueError:
        return url
    host = split.netloc.rpartition("@")[2].lower()
    query_text = f"?{split.query}" if query else ""
    return unquote(f"{split.scheme}://{host}{split.path}{query_text}").removeprefix("://")
