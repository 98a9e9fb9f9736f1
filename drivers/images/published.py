"""
Images that agents fetch from this conductor: `image_download_source` is `local`, or only
conductors can read the image, as one of an image service or of a file URL.

The images lie in the node's folder below `[deploy]http_root`, published as `[deploy]http_url`,
during the deployment.
"""

import hashlib
import secrets
from pathlib import Path
from urllib.parse import quote

from drivers.core.errors import BadImage, InvalidDriverInfo
from drivers.core.target import Target
from drivers.images import cache, files, image_server, references
from drivers.images.checksums import Checksum
from drivers.net import service_addresses, urls


def needed(target: Target) -> bool:
    """
    Return whether the agent fetches its image from this conductor.

    Raises InvalidDriverInfo: the source is unknown.
    """
    if references.is_served(target.instance_info.get("image_source")):
        return True
    field, source = next(
        (
            (f"{name}/image_download_source", info["image_download_source"])
            for name, info in (
                ("instance_info", target.instance_info),
                ("driver_info", target.driver_info),
            )
            if info.get("image_download_source")
        ),
        ("", target.options["agent"]["image_download_source"]),
    )
    if source == "swift":
        raise InvalidDriverInfo(f"{field}: object stores are not supported; use http or local")
    if source not in ("http", "local"):
        raise InvalidDriverInfo(f"{field}: {source!r} is neither http nor local")
    return bool(source == "local")


def validate(target: Target) -> None:
    """
    Check that this conductor can publish the image, if that is needed.

    Raises InvalidDriverInfo: there is no web server.
    """
    if not needed(target):
        return
    if not target.options["deploy"]["http_url"]:
        raise InvalidDriverInfo(
            "instance_info/image_source: agents would fetch this image from the conductor, which"
            " has no web server: [deploy]http_url is not set"
        )


def publish(target: Target, source: str, checksum: Checksum) -> str:
    """
    Publish an image and return its URL for the agent. A repeated call downloads nothing.

    Raises BadImage, Unreachable, InvalidDriverInfo.
    """
    name = source.partition("?")[0].rpartition("/")[2] or "image"
    root = files.http_root(target.options)
    folder = files.folder_of(target, root, files.IMAGE)
    if folder is None or not _is_published(folder / name, source, checksum):
        link_path = files.folder(target, root, files.IMAGE, secrets.token_urlsafe(16)) / name
        with files.naming_errors():
            if urls.is_file(source):
                with urls.opened(target.options, source) as (_file, path):
                    link_path.symlink_to(path)
            else:
                _fetch(target, source, checksum, link_path)
        folder = link_path.parent
    return f"{service_addresses.of_files(target)}/{folder.relative_to(root)}/{quote(name)}"


def withdraw(target: Target) -> None:
    """Remove the node's image."""
    files.withdraw(target, files.IMAGE)


def _is_published(path: Path, source: str, checksum: Checksum) -> bool:
    """Return whether an earlier call has published the image, and whole: it may have been cut."""
    if urls.is_file(source) or not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, checksum.algorithm).hexdigest() == checksum.value


def _fetch(target: Target, source: str, checksum: Checksum, path: Path) -> None:
    digest = hashlib.new(checksum.algorithm)
    part = path.with_name(f".{path.name}.part")
    image_server.copy(target, source, part, {}, digest)
    if digest.hexdigest() != checksum.value:
        part.unlink()
        # the actual checksum is not revealed: the URL may be one that only conductors can reach
        raise BadImage(
            f"{urls.redacted(source)} does not have the {checksum.algorithm} {checksum.value}"
        )
    cache.complete(part, path)
