"""
Images of Glance, by its API v2.

The credentials of [glance] can read the images of many projects. So an image is used for a node of
a project only if that project may use it: it is public, or of the community, or belongs to the
project or to the service's own, or is shared with the project, and accepted.

The token is sent to Glance alone: redirects are not followed, and machines fetch the conductor's
copy. The import takes half a second; `image_server` imports this module when it is needed.

Errors: Unreachable (no answer; tried again before), InvalidDriverInfo (settings of [glance]),
BadImage (no such image, not active, not for this node, malformed), Refused (of the credentials).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from keystoneauth1.adapter import Adapter

from drivers.core.errors import (
    BadImage,
    HardwareError,
    InvalidDriverInfo,
    Refused,
    Unexpected,
    Unreachable,
)
from drivers.core.target import Target
from drivers.images import checksums, references
from drivers.images.checksums import Checksum
from drivers.net import fetch, keystone

_GROUP = "glance"
_PUBLIC_VISIBILITIES = ("public", "community")
#: Field of the image -> field of instance_info with the same meaning.
_FACTS = {
    "kernel_id": "kernel",
    "ramdisk_id": "ramdisk",
    "img_type": "image_type",
    "rootfs_uuid": "image_rootfs_uuid",
    "disk_format": "image_disk_format",
    "container_format": "image_container_format",
}
#: Characters of a property.
_MAX_LENGTH = 255


def describe(target: Target, reference: str) -> dict[str, str]:
    """
    Return what Glance knows about an image, as fields of instance_info.

    Its status and the node's right to it are checked. There is no checksum among the fields if
    Glance has none that is accepted.
    """
    uuid = references.glance_id(reference, "image")
    with _glance(target) as adapter:
        record = _usable(target, adapter, uuid)
    facts = {field: record[name] for name, field in _FACTS.items() if record.get(name)}
    for name, value in facts.items():
        if not isinstance(value, str) or len(value) > _MAX_LENGTH:
            raise BadImage(f"image {uuid}: its property for {name} is not a short text")
    checksum = _checksum(target, record)
    if checksum is not None:
        facts["image_os_hash_algo"] = checksum.algorithm
        facts["image_os_hash_value"] = checksum.value
    return facts


@contextmanager
def opened(target: Target, reference: str, headers: Mapping[str, str]) -> Iterator[fetch.Source]:
    """Open the content of an image, as `drivers.net.fetch.opened` opens a URL."""
    uuid = references.glance_id(reference, "image")
    with _glance(target) as adapter:
        size = _usable(target, adapter, uuid).get("size")
        answer = _ask(adapter, uuid, "/file", headers=dict(headers), stream=True)
        if answer.status_code == 204:
            raise BadImage(f"Glance has no data of image {uuid}")
        with answer:
            source = fetch.source_of(target, f"glance://{uuid}", answer, headers, answer.raw)
            if isinstance(size, int) and source.size not in (None, size):
                raise BadImage(
                    f"image {uuid} has {size} bytes by its record in Glance, but Glance sends"
                    f" {source.size}"
                )
            if source.size is None and isinstance(size, int):
                source.size = size
            yield source


@contextmanager
def _glance(target: Target) -> Iterator[Adapter]:
    """Yield a client of Glance."""
    options = target.options[_GROUP]
    deadline, attempts = float(target.options["conductor"]["fetch_timeout"]), options["num_retries"]
    with (
        fetch.service_session("Glance", deadline) as transport,
        keystone.adapter(
            options, _GROUP, "image", transport,
            connect_retries=attempts, status_code_retries=attempts,
        ) as adapter,
    ):  # fmt: skip
        yield adapter


def _usable(target: Target, adapter: Adapter, uuid: str) -> dict[str, Any]:
    """Return the record of an image. Raises BadImage: it is not active, or not for this node."""
    record = _document(adapter, uuid)
    if record.get("id") not in (uuid, uuid.replace("-", "")):
        raise Unexpected(f"Glance answered with another image than {uuid}")
    if not _may_use(target, adapter, record, uuid):
        raise BadImage(
            f"image {uuid} is neither public nor of the project of this node's lessee or owner, nor"
            " shared with it and accepted"
        )
    if (status := record.get("status")) != "active":
        raise BadImage(f"image {uuid} is {status!r:.40} in Glance, not active")
    return record


def _may_use(target: Target, adapter: Adapter, record: Mapping[str, Any], uuid: str) -> bool:
    projects = {project for name in ("lessee", "owner") if (project := target.record.get(name))}
    visibility, owner = record.get("visibility"), record.get("owner")
    if not projects or visibility in _PUBLIC_VISIBILITIES or owner in projects:
        return True  # a node of no project is changed by administrators alone
    with keystone.translated("Glance", _GROUP):
        if owner and owner == adapter.get_project_id():
            return True
    if visibility != "shared":
        return False
    members = _document(adapter, uuid, "/members").get("members")
    return any(
        isinstance(member, dict)
        and member.get("member_id") in projects
        and member.get("status") == "accepted"
        for member in (members if isinstance(members, list) else ())
    )


def _checksum(target: Target, record: Mapping[str, Any]) -> Checksum | None:
    """Return the strongest checksum of a record; None: it has none, or one that is refused."""
    for algorithm, value in (
        (record.get("os_hash_algo"), record.get("os_hash_value")),
        ("md5", record.get("checksum")),
    ):
        if algorithm and value:
            try:
                return checksums.read(target, "image_source", value, str(algorithm).lower())
            except HardwareError:
                continue
    return None


def _document(adapter: Adapter, uuid: str, part: str = "") -> dict[str, Any]:
    answer = _ask(adapter, uuid, part, headers={"Accept": "application/json"})
    try:
        document = answer.json()
    except (ValueError, OSError):
        document = None
    if not isinstance(document, dict):
        raise Unexpected(f"Glance returned no JSON object about image {uuid}")
    return document


def _ask(adapter: Adapter, uuid: str, part: str, **request: object) -> Any:
    """
    GET an image, or a part of it such as "/file"; return the answer.

    Raises BadImage, Refused, Unreachable: it is an error.
    """
    with keystone.translated("Glance", _GROUP, f" about image {uuid}"):
        root = (adapter.get_endpoint() or "").rstrip("/").removesuffix("/v2")
        if not root:
            raise InvalidDriverInfo("[glance]: Keystone's catalog has no endpoint of type image")
        url = f"{root}/v2/images/{uuid}{part}"
        answer = adapter.request(url, "GET", raise_exc=False, redirect=False, **request)
    status = answer.status_code
    if status in (200, 204, 206):
        return answer
    answer.close()
    message = f"Glance answered {status} {answer.reason} for image {uuid}"
    if status in (404, 410):
        raise BadImage(f"{message}: there is no such image, or [glance] may not see it")
    if status in (401, 403):
        raise Refused(f"{message}: the credentials of [glance] may not read it")
    if status == 429 or status >= 500:
        raise Unreachable(message)
    raise BadImage(message)
