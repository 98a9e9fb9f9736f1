"""Request schemas of networks and switches."""

import re
from base64 import b64decode
from binascii import Error
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from app.api.values.value_types import (
    NOT_EMPTY,
    Flag,
    Ident,
    ListQuery,
    Mac,
    Name,
    Text,
    creation,
    within,
)
from drivers.builtin import SWITCH_DIALECTS

#: VLANs of IEEE 802.1Q; most of them in a trunk.
LOWEST_VLAN, HIGHEST_VLAN, MOST_VLANS = 1, 4094, 256
_HOST_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) ([A-Za-z0-9+/]+=*)")


class Vlan(fields.Integer):
    """Number of a VLAN; not its digits as text."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(strict=True, validate=within(LOWEST_VLAN, HIGHEST_VLAN), **kwargs)

    def _deserialize(self, value: object, attr: object, data: object, **kwargs: object) -> int:
        if isinstance(value, bool | str):
            raise ValidationError("Not a valid integer.")
        number: int = super()._deserialize(value, attr, data, **kwargs)
        return number


class NetworkChange(Schema):
    name = Name(null=False)
    description = Text(allow_none=True)
    vlan = Vlan(
        allow_none=True, metadata={"description": "VLAN without tags at the machine's port"}
    )
    tagged_vlans = fields.List(
        Vlan(),
        allow_none=True,
        validate=validate.Length(max=MOST_VLANS),
        metadata={"description": "VLANs with tags: the machine's port is a trunk"},
    )
    physical_network = Text(64, allow_none=True)
    owner = Text(
        allow_none=True,
        metadata={"description": "Project that may use it; without it and public, agents alone"},
    )
    public = Flag(metadata={"description": "Every project may use it"})


NetworkCreate = creation(NetworkChange, "name")


class NetworksQuery(ListQuery):
    owner = Text(metadata={"description": "Those of this project"})


class SwitchPortsQuery(Schema):
    network = Ident(metadata={"description": "Compare with an order for this network instead"})


class HostKey(Text):
    """Public key of an SSH server: its type and the key, without hosts and comment."""

    def _normalized(self, text: str) -> str:
        match = _HOST_KEY.fullmatch(text)
        try:
            is_key = match and b64decode(match[2], validate=True)[4:].startswith(match[1].encode())
        except Error:
            is_key = False
        if not is_key:
            raise ValidationError(
                "must be a public key such as `ssh-ed25519 AAAA...`: the last two words of a line"
                " of `ssh-keyscan ADDRESS`"
            )
        return text


class SwitchChange(Schema):
    name = Name(null=False)
    description = Text(allow_none=True)
    switch_id = Mac(metadata={"description": "MAC address, as in local_link_connection of ports"})
    device_type = Text(choices=sorted(SWITCH_DIALECTS))
    address = Text(shortest=1, metadata={"description": "Host name or IP address"})
    port = fields.Integer(strict=True, validate=within(1, 65535))
    username = Text(shortest=1)
    password = Text(allow_none=True)
    private_key = Text(
        8192, allow_none=True, metadata={"description": "SSH key in PEM, without a passphrase"}
    )
    enable_password = Text(
        allow_none=True, metadata={"description": "Password of `enable`, or of sudo"}
    )
    host_key = HostKey(4096, metadata={"description": "Public key of the switch: type and key"})
    ports = fields.List(
        Text(64, shortest=1),
        validate=NOT_EMPTY,
        metadata={"description": "Patterns, as Ethernet1/*: ports that may be configured"},
    )
    save_changes = Flag(
        metadata={"description": "Save the configuration for the next start after each change"}
    )


SwitchCreate = creation(
    SwitchChange, "name", "switch_id", "device_type", "address", "username", "host_key", "ports"
)
