"""
The config drive of an instance, which cloud-init, Ignition or cloudbase-init reads at its start.

`instance_info/configdrive` is a finished drive (a file system, compressed by gzip, in base64), the
URL of one, or its parts: an object of `meta_data`, `user_data`, `network_data` and `vendor_data`.
The parts become an ISO 9660 image labelled `config-2`, with the files of OpenStack's config drives.
cloud-init ignores a whole drive whose `meta_data.json` it cannot use, so parts are checked by its
rules.
"""

import base64
import binascii
import gzip
import json
import zlib
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Target
from drivers.images import iso9660
from drivers.net import urls

LABEL = "config-2"
FIELD = "instance_info/configdrive"
#: Most bytes of a drive: the agent makes no larger partition for it.
LARGEST = 64 << 20
#: Folder of the files: readers take it if no folder has a version that they know.
FOLDER = "openstack/latest"
#: Part -> its file.
NAMES = {
    "meta_data": "meta_data.json",
    "network_data": "network_data.json",
    "vendor_data": "vendor_data2.json",
    "user_data": "user_data",
}
_CHUNK = 1 << 20


def validate(target: Target) -> None:
    """
    Check the config drive of the instance, if it has one.

    Raises InvalidDriverInfo: the field is malformed, or no reader would accept the drive.
    """
    drive = target.instance_info.get("configdrive")
    if not isinstance(drive, str) or not drive:
        files(target)
    elif _is_url(drive):
        urls.checked(drive, FIELD)
    else:
        _check_packed(drive)


def encoded(target: Target) -> str | None:
    """
    Return the config drive for the agent: a URL or base64 text, if there is one.

    Raises InvalidDriverInfo: a part is malformed.
    """
    drive = target.instance_info.get("configdrive")
    if isinstance(drive, str) and drive:
        return drive
    contents = files(target)
    return base64.b64encode(gzip.compress(_image(contents), mtime=0)).decode() if contents else None


def files(target: Target) -> dict[str, bytes]:
    """
    Return the files of a config drive that has the form of parts, by name; empty without a drive.

    `meta_data.json` has the UUID and the name of the node if the caller gave no others.

    Raises InvalidDriverInfo: the field has another form, or a part is malformed.
    """
    drive = target.instance_info.get("configdrive")
    if not drive:
        return {}
    if not isinstance(drive, Mapping):
        raise InvalidDriverInfo(f"{FIELD} must be an object of {', '.join(NAMES)} here")
    if unknown_names := set(drive) - NAMES.keys():
        raise InvalidDriverInfo(
            f"{FIELD}: unknown part {min(unknown_names)!r}; the parts are {', '.join(NAMES)}"
        )
    contents = {"meta_data": _meta_data(target, drive.get("meta_data"))}
    for part in ("network_data", "vendor_data"):
        contents[part] = _object(drive.get(part), part)
    documents = {NAMES[part]: _json(part, value) for part, value in contents.items() if value}
    documents |= _user_data(drive.get("user_data"))
    _check_size(sum(map(len, documents.values())))
    return documents


def _meta_data(target: Target, given_data: object) -> dict[str, Any]:
    """Return the metadata, by the rules of cloud-init for it."""
    user_values = {
        name: value for name, value in _object(given_data, "meta_data").items() if value is not None
    }
    node = {"uuid": target.uuid, "name": target.name}
    meta_data = {name: value for name, value in node.items() if value} | user_values
    for name in ("uuid", "name", "hostname"):
        if name in meta_data and not (isinstance(meta_data[name], str) and meta_data[name]):
            raise InvalidDriverInfo(f"{FIELD}: meta_data/{name} must be a text that is not empty")
    for name in ("files", "network_config"):
        if meta_data.get(name):
            raise InvalidDriverInfo(
                f"{FIELD}: meta_data/{name} names further files, which parts cannot carry; use"
                " user_data or network_data, or send a finished drive"
            )
    if not isinstance(meta_data.get("meta", {}), Mapping):
        raise InvalidDriverInfo(f"{FIELD}: meta_data/meta must be an object")
    if "random_seed" in meta_data:
        try:
            base64.b64decode(meta_data["random_seed"])
        except (TypeError, ValueError):
            raise InvalidDriverInfo(f"{FIELD}: meta_data/random_seed must be base64") from None
    return meta_data


def _user_data(value: object) -> dict[str, bytes]:
    """Return the file of the user data: a text as it is, any other JSON as JSON."""
    if value in (None, "", {}, []):
        return {}
    if not isinstance(value, str | Mapping | list):
        raise InvalidDriverInfo(f"{FIELD}: user_data must be a text, an object or a list")
    if not isinstance(value, str):
        return {NAMES["user_data"]: _json("user_data", value)}
    try:
        return {NAMES["user_data"]: value.encode()}
    except UnicodeEncodeError:
        raise InvalidDriverInfo(f"{FIELD}: user_data is not valid Unicode") from None


def _object(value: object, part: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidDriverInfo(f"{FIELD}: {part} must be an object")
    return dict(value or {})


def _json(part: str, value: object) -> bytes:
    try:
        return json.dumps(value, allow_nan=False).encode()
    except ValueError as error:
        raise InvalidDriverInfo(f"{FIELD}: {part} is no JSON: {error}") from None


def _image(contents: Mapping[str, bytes]) -> bytes:
    image = BytesIO()
    with iso9660.new_image(LABEL) as tree:
        for name, content in contents.items():
            tree.add(f"/{FOLDER}/{name}", content)
        tree.write(image)
    return image.getvalue()


def _is_url(drive: str) -> bool:
    return "://" in drive


def _check_packed(drive: str) -> None:
    """Check a finished drive as the agent unpacks it: base64 of gzip, of a limited size."""
    try:
        packed = base64.b64decode("".join(drive.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidDriverInfo(
            f"{FIELD} must be an object of {', '.join(NAMES)}, a http or https URL, or the base64"
            " of a drive compressed by gzip; this is no base64"
        ) from None
    size = 0
    try:
        with gzip.GzipFile(fileobj=BytesIO(packed)) as drive_file:
            while chunk := drive_file.read(_CHUNK):
                size += len(chunk)
                _check_size(size)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidDriverInfo(
            f"{FIELD}: the base64 text is no drive compressed by gzip: {error}"
        ) from None
    if not size:
        raise InvalidDriverInfo(f"{FIELD}: the drive is empty")


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise InvalidDriverInfo(f"{FIELD}: the drive is larger than {LARGEST >> 20} MiB")
