"""Request schemas of ports."""

import re
from typing import Any

from marshmallow import Schema, ValidationError

from app.api.values.value_types import (
    CommaSeparated,
    Document,
    Flag,
    Ident,
    ListQuery,
    Mac,
    Name,
    Text,
    Uuid,
    creation,
    is_mac,
)

LINK_KEYS = {"switch_id", "port_id", "switch_info", "hostname", "network_type"}
VTEP_KEYS = {"vtep-logical-switch", "vtep-physical-switch"}
_DATAPATH = re.compile(r"[0-9a-fA-F]{16}")


class Link(Document):
    """`local_link_connection` of a port; the switch's id is lower-cased."""

    def _deserialize(
        self, value: object, attr: object, data: object, **kwargs: object
    ) -> dict[str, Any]:
        link: dict[str, Any] = super()._deserialize(value, attr, data, **kwargs)  # type: ignore[no-untyped-call]
        check_link(link)
        switch = link.get("switch_id")
        return link if switch is None else {**link, "switch_id": switch.lower()}


class PortChange(Schema):
    address = Mac()
    node_uuid = Uuid()
    portgroup_uuid = Uuid(allow_none=True)
    name = Name(allow_none=True)
    extra = Document()
    local_link_connection = Link()
    pxe_enabled = Flag(allow_none=True)
    physical_network = Text(64, shortest=1, allow_none=True)
    is_smartnic = Flag(allow_none=True)
    description = Text(allow_none=True)
    vendor = Text(32, allow_none=True)
    category = Text(80, allow_none=True)
    available_for_dynamic_portgroup = Flag(allow_none=True)


PortCreate = creation(
    PortChange, "address", node_ident=Ident(), available_for_dynamic_portgroup=Flag()
)


class PortFilters(ListQuery):
    node = Ident()
    node_uuid = Uuid()
    portgroup = Ident()
    address = Mac()
    shard = Text(4096)
    conductor_groups = CommaSeparated(lower=False)
    description_contains = Text()


def check_link(link: dict[str, Any]) -> None:
    """
    Check a `local_link_connection`: its keys, and that switch and port are named.

    Raises ValidationError.
    """
    if not link:
        return
    unknown_keys = link.keys() - LINK_KEYS - VTEP_KEYS
    if unknown_keys:
        known_keys = ", ".join(sorted(LINK_KEYS | VTEP_KEYS))
        raise ValidationError(f"{', '.join(sorted(unknown_keys))}: not one of {known_keys}.")
    if not all(isinstance(value, str | None) for value in link.values()):
        raise ValidationError("Every value must be text.")
    kind = link.get("network_type")
    if kind not in (None, "managed", "unmanaged"):
        raise ValidationError(f"network_type: {kind!r} is not one of managed, unmanaged.")
    switch = link.get("switch_id")
    if switch is not None and not is_mac(switch) and not _DATAPATH.fullmatch(switch):
        raise ValidationError("switch_id: neither a MAC address nor a datapath id.")
    complete = "port_id" in link and ("switch_id" in link or "hostname" in link)
    if not complete and kind != "unmanaged":
        raise ValidationError("port_id, and switch_id or hostname, are required.")
