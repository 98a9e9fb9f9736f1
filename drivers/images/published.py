"""
Images that agents fetch from this conductor: `[agent]image_download_source = local`, and files.

They lie below `[deploy]http_root`, which is served as `[deploy]http_url`, in a folder of the node,
for as long as it is being deployed.
"""

import hashlib
import secrets
from pathlib import Path
from urllib.parse import quote

from drivers import urls
from drivers.core.errors import BadImage, InvalidDriverInfo
from drivers.core.target import Target
from drivers.images import addresses, files, image_server
from drivers.images.checksums import Checksum


def needed(target: Target) -> bool:
    """Whether the agent is to fetch its image from here. Raises InvalidDriverInfo."""
    if urls.is_file(str(target.instance_info.get("image_source"))):
        return True
    place, source = next(
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
        raise InvalidDriverInfo(f"{place}: there is no object store here; use http or local")
    if source not in ("http", "local"):
        raise InvalidDriverInfo(f"{place}: {source!r} is neither http nor local")
    return bool(source == "local")


def validate(target: Target) -> None:
    """Raises InvalidDriverInfo when an image would have to be served, and cannot be."""
    if not needed(target):
        return
    if not target.options["deploy"]["http_url"]:
        raise InvalidDriverInfo(
            "instance_info/image_source: agents would fetch this image from the conductor, which"
            " has no web server: [deploy]http_url is not set"
        )


def publish(target: Target, source: str, checksum: Checksum) -> str:
    """
    The URL at which the agent finds the image; done again at no cost.

    Raises BadImage, Unreachable, InvalidDriverInfo.
    """
    name = source.partition("?")[0].rpartition("/")[2] or "image"
    root = files.http_root(target.options)
    before = files.found(target, root, files.IMAGE)
    if before is None or not (before / name).exists():
        place = files.folder(target, root, files.IMAGE, secrets.token_urlsafe(16)) / name
        with files.told():
            if urls.is_file(source):
                with urls.opened(target.options, source) as (_file, path):
                    place.symlink_to(path)
            else:
                _fetch(target, source, checksum, place)
        before = place.parent
    return f"{addresses.of_files(target)}/{before.relative_to(root)}/{quote(name)}"


def withdraw(target: Target) -> None:
    """Nothing of the node's image is served any more."""
    files.withdraw(target, files.IMAGE)


def _fetch(target: Target, source: str, checksum: Checksum, place: Path) -> None:
    summed = hashlib.new(checksum.algorithm)
    part = place.with_name(f".{place.name}.part")
    with part.open("wb") as file:
        for chunk in image_server.chunks(target, source):
            file.write(chunk)
            summed.update(chunk)
    if summed.hexdigest() != checksum.value:
        part.unlink()
        # the sum of what was read stays here: it may be of a page that only conductors can fetch
        raise BadImage(
            f"{image_server.shown(source)} does not have the {checksum.algorithm} {checksum.value}"
        )
    part.rename(place)
