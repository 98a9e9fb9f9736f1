"""
Images that agents fetch from this conductor: `image_download_source` is `local`, or only
conductors can read the image, as one of an image service or of a file URL.

The images lie in the node's folder below `[deploy]http_root`, published as `[deploy]http_url`,
during the deployment. With `[DEFAULT]force_raw_images` the agent gets raw images instead of qcow2.
"""

import hashlib
import json
import secrets
from pathlib import Path
from urllib.parse import quote

from drivers.core.errors import BadImage, InvalidDriverInfo
from drivers.core.target import Target
from drivers.images import cache, conversion, files, image_server, references
from drivers.images.checksums import Checksum
from drivers.net import service_addresses, urls

#: Algorithm of the checksums of converted images.
_SHA256 = "sha256"


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


def becomes_raw(target: Target, disk_format: str | None) -> bool:
    """Return whether the agent gets an image of this format as a raw one."""
    is_wanted = bool(target.options["DEFAULT"]["force_raw_images"])
    return is_wanted and disk_format == "qcow2" and needed(target)


def validate(target: Target) -> None:
    """
    Check that this conductor can publish the image, if that is needed.

    Raises InvalidDriverInfo: there is no web server, or no program for conversions.
    """
    if not needed(target):
        return
    if not target.options["deploy"]["http_url"]:
        raise InvalidDriverInfo(
            "instance_info/image_source: agents would fetch this image from the conductor, which"
            " has no web server: [deploy]http_url is not set"
        )
    if target.options["DEFAULT"]["force_raw_images"]:
        conversion.validate("[DEFAULT]force_raw_images")


def publish(target: Target, source: str, checksum: Checksum) -> str:
    """
    Publish an image and return its URL for the agent. A repeated call downloads nothing.

    Raises BadImage, Unreachable, InvalidDriverInfo.
    """
    path = _published_path(target, _name(source))
    if path is None or not _is_published(path, source, checksum):
        path = _new_path(target, _name(source))
        with files.naming_errors():
            if urls.is_file(source):
                with urls.opened(target.options, source) as (_file, origin):
                    path.symlink_to(origin)
            else:
                _fetch(target, source, checksum, path)
    return _url(target, path)


def publish_raw(target: Target, source: str, checksum: Checksum) -> tuple[str, Checksum]:
    """
    Publish a qcow2 image as a raw one. A repeated call neither downloads nor converts.

    checksum: of the qcow2 image. Returns the URL for the agent, and the checksum of the raw image.

    Raises BadImage, Unreachable, InvalidDriverInfo.
    """
    name = f"{_name(source)}.raw"
    path = _published_path(target, name)
    raw_checksum = _converted(path, checksum) if path else None
    if path is None or raw_checksum is None:
        path = _new_path(target, name)
        with files.naming_errors():
            raw_checksum = _convert(target, source, checksum, path)
    return _url(target, path), raw_checksum


def withdraw(target: Target) -> None:
    """Remove the node's image."""
    files.withdraw(target, files.IMAGE)


def _name(source: str) -> str:
    return source.partition("?")[0].rpartition("/")[2] or "image"


def _published_path(target: Target, name: str) -> Path | None:
    """Return the path of a file of this name in the node's folder; None: it has no folder."""
    folder = files.folder_of(target, files.http_root(target.options), files.IMAGE)
    return folder / name if folder else None


def _new_path(target: Target, name: str) -> Path:
    """Return a path in a new folder of the node; its earlier one is removed."""
    root = files.http_root(target.options)
    return files.folder(target, root, files.IMAGE, secrets.token_urlsafe(16)) / name


def _url(target: Target, path: Path) -> str:
    folder = path.parent.relative_to(files.http_root(target.options))
    return f"{service_addresses.of_files(target)}/{folder}/{quote(path.name)}"


def _is_published(path: Path, source: str, checksum: Checksum) -> bool:
    """Return whether an earlier call has published the image, and whole: it may have been cut."""
    if urls.is_file(source) or not path.is_file():
        return False
    return _digest(path, checksum.algorithm) == checksum.value


def _converted(path: Path, checksum: Checksum) -> Checksum | None:
    """Return the checksum of the raw image that an earlier call has made; None: it is not whole."""
    try:
        record = json.loads(_record_of(path).read_text())
        is_whole = (record["origin"], record[_SHA256]) == (checksum.value, _digest(path, _SHA256))
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return Checksum(_SHA256, record[_SHA256]) if is_whole else None


def _convert(target: Target, source: str, checksum: Checksum, path: Path) -> Checksum:
    """Convert an image that has this checksum, and return the checksum of the raw one."""
    reserve = int(target.options["conductor"]["fetch_min_free_space"]) << 20
    try:
        if urls.is_file(source):
            with urls.opened(target.options, source) as (_file, origin):
                _compare(source, _digest(origin, checksum.algorithm), checksum)
                conversion.to_raw(origin, path, reserve)
        else:
            origin = path.with_name(".origin")
            _fetch(target, source, checksum, origin)
            conversion.to_raw(origin, path, reserve)
            origin.unlink()
    except conversion.Impossible as error:
        raise BadImage(f"{urls.redacted(source)} cannot become a raw image: {error}") from error
    raw_checksum = Checksum(_SHA256, _digest(path, _SHA256))
    record = {"origin": checksum.value, _SHA256: raw_checksum.value}
    _record_of(path).write_text(json.dumps(record))
    return raw_checksum


def _record_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.json")


def _fetch(target: Target, source: str, checksum: Checksum, path: Path) -> None:
    digest = hashlib.new(checksum.algorithm)
    part = path.with_name(f".{path.name}.part")
    image_server.copy(target, source, part, {}, digest)
    try:
        _compare(source, digest.hexdigest(), checksum)
    except BadImage:
        part.unlink()
        raise
    cache.complete(part, path)


def _compare(source: str, digest: str, checksum: Checksum) -> None:
    if digest != checksum.value:
        # the actual checksum is not revealed: the URL may be one that only conductors can reach
        raise BadImage(
            f"{urls.redacted(source)} does not have the {checksum.algorithm} {checksum.value}"
        )


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()
