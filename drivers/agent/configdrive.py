"""
The config drive: a small ISO 9660 image labelled `config-2` that tells the instance who it is.

Clients send one ready-made (base64 of gzip), or its URL, or its contents as a mapping of
`meta_data`, `user_data`, `network_data` and `vendor_data`; from the mapping it is made here. Names
on it are upper case and at most 31 characters: Linux shows them in lower case, as cloud-init
expects them.
"""

import base64
import gzip
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drivers.errors import InvalidDriverInfo

SECTOR = 2048
LABEL = "config-2"
_FIRST = 19  # sectors: 16 unused, primary volume, terminator, spare
_JSON_FILES = {
    "meta_data": "META_DATA.JSON",
    "network_data": "NETWORK_DATA.JSON",
    "vendor_data": "VENDOR_DATA2.JSON",
}


@dataclass(slots=True)
class _Directory:
    """parent: index in the list of directories. entries: name -> file contents or its index."""

    name: str
    parent: int
    files: dict[str, bytes] = field(default_factory=dict)
    children: list[int] = field(default_factory=list)
    sector: int = 0


def encoded(value: Any) -> str | None:
    """
    The config drive as the agent takes it: a URL or base64 text; None when there is none.

    Raises InvalidDriverInfo for anything that is neither text nor a mapping of known parts.
    """
    if not value:
        return None
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise InvalidDriverInfo("instance_info/configdrive is neither text nor an object")
    unknown = set(value) - {*_JSON_FILES, "user_data"}
    if unknown:
        raise InvalidDriverInfo(f"instance_info/configdrive: unknown part {min(unknown)!r}")
    files = {
        name: json.dumps(value[part]).encode()
        for part, name in _JSON_FILES.items()
        if value.get(part) is not None
    }
    files.setdefault("META_DATA.JSON", b"{}")
    user_data = value.get("user_data")
    if user_data is not None:
        text = user_data if isinstance(user_data, str) else json.dumps(user_data)
        files["USER_DATA"] = text.encode()
    image = iso_image(files)
    return base64.b64encode(gzip.compress(image, mtime=0)).decode()


def iso_image(files: Mapping[str, bytes]) -> bytes:
    """An ISO 9660 image with `files` in OPENSTACK/LATEST."""
    tree = [
        _Directory("", 0, children=[1]),
        _Directory("OPENSTACK", 0, children=[2]),
        _Directory("LATEST", 1, dict(files)),
    ]
    little, big = _FIRST, _FIRST + 1
    sector = _FIRST + 2
    for directory in tree:
        directory.sector = sector
        sector += 1
    body, places = b"", {}
    for name, content in sorted(files.items()):
        places[name] = sector + len(body) // SECTOR
        body += _padded(content)
    total = sector + len(body) // SECTOR
    tables = [_path_table(tree, order) for order in "<>"]
    image = b"\0" * 16 * SECTOR
    image += _padded(_volume(tree[0], total, len(tables[0]), little, big))
    image += _padded(b"\xffCD001\x01") + b"\0" * SECTOR
    image += _padded(tables[0]) + _padded(tables[1])
    for directory in tree:
        image += _padded(_listing(directory, tree, places))
    return image + body


def _listing(directory: _Directory, tree: list[_Directory], places: Mapping[str, int]) -> bytes:
    records = _record(b"\0", directory.sector, SECTOR, 2)
    records += _record(b"\1", tree[directory.parent].sector, SECTOR, 2)
    entries = [
        (tree[child].name, _record(tree[child].name.encode(), tree[child].sector, SECTOR, 2))
        for child in directory.children
    ] + [
        (name, _record(_file_name(name), places[name], len(content), 0))
        for name, content in directory.files.items()
    ]
    return records + b"".join(record for _, record in sorted(entries))


def _file_name(name: str) -> bytes:
    return (name if "." in name else f"{name}.").encode() + b";1"


def _record(name: bytes, sector: int, size: int, flags: int) -> bytes:
    """A directory record; both byte orders, as the standard has it."""
    length = 33 + len(name) + (len(name) + 1) % 2
    head = bytes([length, 0]) + _both(sector) + _both(size)
    head += bytes([70, 1, 1, 0, 0, 0, 0, flags, 0, 0]) + _both16(1) + bytes([len(name)])
    return (head + name).ljust(length, b"\0")


def _path_table(tree: list[_Directory], order: str) -> bytes:
    table = b""
    for directory in tree:
        name = directory.name.encode() or b"\0"
        table += struct.pack(f"{order}BBIH", len(name), 0, directory.sector, directory.parent + 1)
        table += name + b"\0" * (len(name) % 2)
    return table


def _volume(root: _Directory, total: int, table: int, little: int, big: int) -> bytes:
    """The primary volume descriptor."""
    time = b"0" * 16 + b"\0"
    return b"".join(
        (
            b"\x01CD001\x01\0",
            b" " * 32,
            LABEL.encode().ljust(32),
            b"\0" * 8,
            _both(total),
            b"\0" * 32,
            _both16(1) + _both16(1) + _both16(SECTOR),
            _both(table),
            struct.pack("<II", little, 0) + struct.pack(">II", big, 0),
            _record(b"\0", root.sector, SECTOR, 2),
            b" " * (128 * 4 + 37 * 3),
            time * 4,
            b"\x01\0",
        )
    )


def _both(value: int) -> bytes:
    return struct.pack("<I", value) + struct.pack(">I", value)


def _both16(value: int) -> bytes:
    return struct.pack("<H", value) + struct.pack(">H", value)


def _padded(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % SECTOR)
