"""
The config drive: a small ISO 9660 image labelled `config-2` with the instance's metadata.

Clients send a finished one (gzip in base64), its URL, or its contents as a mapping of `meta_data`,
`user_data`, `network_data` and `vendor_data`. The image is built here from the mapping.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any

from drivers import iso9660
from drivers.core.errors import InvalidDriverInfo

LABEL = "config-2"
_JSON_FILES = {
    "meta_data": "meta_data.json",
    "network_data": "network_data.json",
    "vendor_data": "vendor_data2.json",
}


def encoded(value: Any) -> str | None:
    """
    Return the config drive for the agent: a URL or base64 text; None if there is none.

    Raises InvalidDriverInfo: the value is neither text nor a mapping of known parts.
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
    files.setdefault("meta_data.json", b"{}")
    user_data = value.get("user_data")
    if user_data is not None:
        text = user_data if isinstance(user_data, str) else json.dumps(user_data)
        files["user_data"] = text.encode()
    return base64.b64encode(gzip.compress(_image(files), mtime=0)).decode()


def _image(files: Mapping[str, bytes]) -> bytes:
    found = BytesIO()
    with iso9660.new_image(LABEL) as tree:
        for name, content in files.items():
            tree.add(f"/openstack/latest/{name}", content)
        tree.write(found)
    return found.getvalue()
