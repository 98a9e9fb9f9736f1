"""
Images that agents fetch from this conductor: `[agent]image_download_source = local`, and files.

They lie below `[deploy]http_root`, which the site serves as `[deploy]http_url`, in a folder for
each node, for as long as the node is being deployed.
"""

import hashlib
import shutil
from pathlib import Path
from urllib.parse import quote

from drivers.agent import image_server
from drivers.agent.checksums import Checksum
from drivers.errors import BadImage, InvalidDriverInfo
from drivers.target import Target

FOLDER = "agent_images"


def needed(target: Target) -> bool:
    """Whether the agent is to fetch its image from here. Raises InvalidDriverInfo."""
    if str(target.instance_info.get("image_source")).startswith("file:"):
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
    source = str(target.instance_info.get("image_source"))
    allowed = target.options["conductor"]["file_url_allowed_paths"]
    if source.startswith("file:") and not any(
        image_server.path(source).resolve().is_relative_to(each) for each in allowed
    ):
        raise InvalidDriverInfo(
            f"instance_info/image_source: files may only lie in {', '.join(allowed) or 'no folder'}"
            " ([conductor]file_url_allowed_paths)"
        )


def publish(target: Target, source: str, checksum: Checksum) -> str:
    """
    The URL at which the agent finds the image; done again at no cost.

    Raises BadImage, Unreachable.
    """
    name = source.partition("?")[0].rpartition("/")[2] or "image"
    place = _folder(target) / name
    try:
        if source.startswith("file:"):
            withdraw(target)
            place.parent.mkdir(parents=True)
            place.symlink_to(image_server.path(source))
        elif not place.exists():
            withdraw(target)
            place.parent.mkdir(parents=True)
            _fetch(target, source, checksum, place)
    except OSError as error:
        raise BadImage(f"{place}: {error.strerror}") from error
    root = str(target.options["deploy"]["http_url"]).rstrip("/")
    return f"{root}/{FOLDER}/{target.uuid}/{quote(name)}"


def withdraw(target: Target) -> None:
    """Nothing of the node's image is served any more."""
    shutil.rmtree(_folder(target), ignore_errors=True)


def _folder(target: Target) -> Path:
    return Path(target.options["deploy"]["http_root"]) / FOLDER / target.uuid


def _fetch(target: Target, source: str, checksum: Checksum, place: Path) -> None:
    summed = hashlib.new(checksum.algorithm)
    part = place.with_name(f".{place.name}.part")
    with part.open("wb") as file:
        for chunk in image_server.chunks(target, source):
            file.write(chunk)
            summed.update(chunk)
    if summed.hexdigest() != checksum.value:
        part.unlink()
        raise BadImage(
            f"{image_server.shown(source)} has the {checksum.algorithm} {summed.hexdigest()}, not"
            f" {checksum.value}"
        )
    part.rename(place)
