"""
Images that BMCs show to their machines: made for one node, handed out while they are of use.

An image for the agent holds the token that the agent proves itself by, so its name is not to be
guessed: it is made of that token and of all that is on the image. The same image is not made twice.
"""

import hashlib
import secrets
from pathlib import Path

from drivers.boot import command_line, iso
from drivers.core.errors import BadImage
from drivers.core.target import Target
from drivers.images import addresses, cache, files, instance
from drivers.images.instance import Pair

NAME = "boot.iso"
#: what is to be on an image, and by what it is known
_Summed = tuple[iso.Content, str]
#: Where the agent expects the authorities that signed the API's certificate, and how it is told.
_CA = "etc/ironic-python-agent/ironic.crt"
_CA_CONFIG = "etc/ironic-python-agent.d/ironic-tls.conf"


def of_agent(target: Target, pair: Pair, mode: str) -> tuple[str, str]:
    """
    The URL of an image that boots the agent, and the token that is on it.

    Raises BadImage, Unreachable, InvalidDriverInfo.
    """
    agent = target.agent
    token = agent.token if agent.pregenerated and agent.token else secrets.token_urlsafe(32)
    line = command_line.of_agent(
        target, "redfish", outside=True, ipa__agent__token=token, boot_method="vmedia"
    )
    content = _content(target, pair, line, _extra(target))
    return _published(target, files.RAMDISK, content, mode, secret=token), token


def of_instance(target: Target, mode: str) -> str:
    """
    The URL of an image of a ramdisk that is the instance.

    Raises BadImage, Unreachable, InvalidDriverInfo.
    """
    line = command_line.of_instance(target, "redfish")
    content = _content(target, instance.kernel_and_ramdisk(target), line, {})
    return _published(target, files.INSTANCE, content, mode, secret=secrets.token_urlsafe(32))


def _content(target: Target, pair: Pair, line: str, extra: dict[str, bytes]) -> _Summed:
    kernel, ramdisk = cache.get(target, pair.kernel), cache.get(target, pair.ramdisk)
    content = iso.Content(kernel.path, ramdisk.path, line, extra)
    return content, f"{kernel.sha256} {ramdisk.sha256} {line} {extra}"


def _published(target: Target, use: str, summed: _Summed, mode: str, *, secret: str) -> str:
    content, told = summed
    url = addresses.of_files(target, outside=True)
    loaders = iso.loaders(target, mode)
    name = hashlib.sha256(f"{secret} {told} {loaders.summed()}".encode()).hexdigest()[:32]
    root = files.http_root(target.options)
    place = files.folder(target, root, use, name) / NAME
    if not place.exists():
        iso.build(place, content, loaders)
        place.chmod(int(target.options["redfish"]["file_permission"], 8))
    return f"{url}/{place.relative_to(root)}"


def _extra(target: Target) -> dict[str, bytes]:
    """What the agent takes from the image for itself: the authorities that it is to believe."""
    path = target.options["agent"]["api_ca_file"]
    if not path:
        return {}
    try:
        authorities = Path(path).read_bytes()
    except OSError as error:
        raise BadImage(f"[agent]api_ca_file: {path}: {error.strerror}") from error
    return {_CA: authorities, _CA_CONFIG: f"[DEFAULT]\ncafile = /{_CA}\n".encode()}
