"""
Images of container registries, as disks and as containers.

An index leads to one manifest, by the architecture of the machine and the type of the disk. The
manifest of a disk has a single layer, the image. All content is compared with its digest.

Errors are those of `drivers.images.registries`, and BadImage for a container or several images.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from drivers.core.errors import BadImage
from drivers.core.target import Target
from drivers.images.registries import DIGEST, INDEXES, MANIFESTS, Document, Reference, Registry
from drivers.net import fetch

#: Architecture of a platform -> `properties/cpu_arch`.
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "386": "i686"}
#: Annotation `disktype` -> format.
_DISK_FORMATS = {"qcow2": "qcow2", "qemu": "qcow2", "raw": "raw", "applehv": "raw"}
_MOST_NAMED = 5  # manifests in an error


def describe(target: Target, reference: str) -> dict[str, str]:
    """Return the checksum and the format of an image, as fields of instance_info."""
    layer = _layer(target, Registry(target, reference))
    facts = {"image_os_hash_algo": "sha256", "image_os_hash_value": layer.sha256}
    return facts | ({"image_disk_format": layer.disk_format} if layer.disk_format else {})


@contextmanager
def opened(target: Target, reference: str, headers: Mapping[str, str]) -> Iterator[fetch.Source]:
    """Open the content of an image, as `drivers.net.fetch.opened` opens a URL."""
    registry = Registry(target, reference)
    layer = _layer(target, registry)
    with registry.get(f"blobs/sha256:{layer.sha256}", headers) as answer:
        is_part = answer.status_code == 206
        content = answer.raw if is_part else _Content(answer.raw, layer, registry.reference)
        source = fetch.source_of(target, str(registry.reference), answer, headers, content)
        if source.size is None:
            source.size = layer.size
        if source.size != layer.size:
            raise BadImage(
                f"{registry.reference} has {layer.size} bytes by its manifest, but the registry"
                f" sends {source.size}"
            )
        yield source


def pinned(target: Target, reference: str) -> str:
    """Return a reference to an image or a container by the digest that its tag leads to now."""
    registry = Registry(target, reference)
    document = registry.document(registry.reference.version)
    if document.media_type in INDEXES:
        _fitting(target, document, registry.reference)
    elif document.media_type not in MANIFESTS:
        raise BadImage(f"{registry.reference} is {document.media_type!r:.100}, not a container")
    return str(replace(registry.reference, version=document.digest))


@dataclass(frozen=True, slots=True)
class _Layer:
    """Descriptor of the image in a manifest."""

    sha256: str  # hexadecimal
    size: int  # bytes
    disk_format: str | None  # None: the registry does not tell


class _Content:
    """Content of an image, compared with its digest at the end."""

    def __init__(self, stream: Any, layer: _Layer, reference: Reference) -> None:
        self._stream, self._layer, self._reference = stream, layer, reference
        self._hash = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Read the next bytes. Raises BadImage: it was not the content of the digest."""
        data = bytes(self._stream.read(size))
        self._hash.update(data)
        if not data and self._hash.hexdigest() != self._layer.sha256:
            raise BadImage(f"{self._reference} has another content than its digest")
        return data


def _layer(target: Target, registry: Registry) -> _Layer:
    """Return the descriptor of a disk."""
    reference = registry.reference
    document, disk_format = registry.document(reference.version), None
    if document.media_type in INDEXES:
        descriptor = _chosen(target, document, reference)
        disk_format = _disk_format(descriptor)
        document = registry.document(_digest(descriptor, reference))
    if document.media_type not in MANIFESTS:
        raise BadImage(f"{reference} is {document.media_type!r:.100}, not the manifest of an image")
    layers = document.content.get("layers")
    if not (isinstance(layers, list) and len(layers) == 1 and isinstance(layers[0], dict)):
        count = len(layers) if isinstance(layers, list) else "no"
        raise BadImage(
            f"{reference} is no disk: its manifest has {count} layers, and that of a disk has one"
        )
    size = layers[0].get("size")
    if not isinstance(size, int) or size <= 0:
        raise BadImage(f"{reference}: its layer has no size")
    digest = _digest(layers[0], reference)
    return _Layer(digest.partition(":")[2], size, disk_format or _disk_format(document.content))


def _chosen(target: Target, index: Document, reference: Reference) -> dict[str, Any]:
    """Return the descriptor of the manifest that fits the machine and the declared format."""
    descriptors = _fitting(target, index, reference)
    formats = {_disk_format(descriptor) for descriptor in descriptors}
    for disk_format in (target.instance_info.get("image_disk_format"), "raw", "qcow2"):
        if disk_format and disk_format in formats:
            descriptors = [
                descriptor for descriptor in descriptors if _disk_format(descriptor) == disk_format
            ]
            break
    if len(descriptors) == 1:
        return descriptors[0]
    digests = ", ".join(
        str(descriptor.get("digest"))[:71] for descriptor in descriptors[:_MOST_NAMED]
    )
    raise BadImage(
        f"{reference} has {len(descriptors)} images that fit the machine; name one by its digest:"
        f" {digests}"
    )


def _fitting(target: Target, index: Document, reference: Reference) -> Sequence[dict[str, Any]]:
    """
    Return the descriptors of the manifests for the machine's architecture.

    Raises BadImage: there is none.
    """
    manifests, cpu_arch = index.content.get("manifests"), target.properties.get("cpu_arch")
    descriptors = [
        descriptor
        for descriptor in (manifests if isinstance(manifests, list) else ())
        if isinstance(descriptor, dict) and _fits(descriptor, cpu_arch)
    ]
    if not descriptors:
        raise BadImage(
            f"{reference} has no image for {cpu_arch or 'this machine'} (properties/cpu_arch)"
        )
    return descriptors


def _fits(descriptor: Mapping[str, Any], cpu_arch: object) -> bool:
    """Whether a manifest is for an architecture; one without a platform is for all."""
    platform = descriptor.get("platform")
    platform = platform if isinstance(platform, dict) else {}
    architecture = str(platform.get("architecture") or "")
    if "unknown" in (architecture, platform.get("os")):  # attestations of other manifests
        return False
    architecture = _ARCHITECTURES.get(architecture, architecture)
    return not (architecture and cpu_arch) or architecture == cpu_arch


def _digest(descriptor: Mapping[str, Any], reference: Reference) -> str:
    digest = str(descriptor.get("digest"))
    if not DIGEST.fullmatch(digest):
        raise BadImage(f"{reference}: {digest!r:.100} is no SHA-256 digest")
    return digest


def _disk_format(document: Mapping[str, Any]) -> str | None:
    """Return the format of a disk by the annotation of its descriptor or manifest."""
    annotations = document.get("annotations")
    disk_type = annotations.get("disktype") if isinstance(annotations, dict) else None
    return _DISK_FORMATS.get(disk_type) if isinstance(disk_type, str) else None
