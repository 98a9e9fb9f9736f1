"""
ISO images for virtual media: built for one node, published as long as they are needed.

The image of an agent contains the agent's token, so its URL must be secret: it is a digest of the
token and the image's contents. An image with these contents is built only once.
"""

import hashlib
import secrets
from pathlib import Path

from drivers.boot import command_line, iso, network_data
from drivers.core.errors import BadImage
from drivers.core.target import Target
from drivers.images import cache, files, instance
from drivers.images.instance import Pair
from drivers.net import service_addresses

NAME = "boot.iso"
#: Paths on the CD: CA certificates for the API's certificate, and the agent's setting for them.
_CA = "etc/ironic-python-agent/ironic.crt"
_CA_CONFIG = "etc/ironic-python-agent.d/ironic-tls.conf"


def of_agent(target: Target, pair: Pair, mode: str) -> tuple[str, str]:
    """
    Return the URL of an image that boots the agent, and the token on it.

    Raises BadImage, Unreachable, InvalidDriverInfo.
    """
    agent = target.agent
    token = agent.token if agent.pregenerated and agent.token else secrets.token_urlsafe(32)
    # a former tenant's config drive on a disk has another publisher
    publisher = hashlib.sha256(f"publisher {token}".encode()).hexdigest()[:32].upper()
    line = command_line.of_agent(
        target,
        "redfish",
        outside=True,
        ipa__agent__token=token,
        boot_method="vmedia",
        ir_pub_id=publisher,
    )
    authorities, network = _authorities(target), network_data.files(target)
    content = iso.Content(
        cache.get(target, pair.kernel),
        cache.get(target, pair.ramdisk),
        line,
        {**authorities, **network},
        # also for a ramdisk without a driver for the CD, and for UEFI HTTP boot, which leaves none
        {**authorities, **network_data.mounted(network)},
        label=network_data.LABEL if network else iso.LABEL,
        publisher=publisher,
    )
    return _publish(target, files.RAMDISK, content, mode, secret=token), token


def of_instance(target: Target, mode: str) -> str:
    """
    Return the URL of an image that boots a ramdisk instance.

    Raises BadImage, Unreachable, InvalidDriverInfo.
    """
    line = command_line.of_instance(target, "redfish")
    pair = instance.kernel_and_ramdisk(target)
    content = iso.Content(cache.get(target, pair.kernel), cache.get(target, pair.ramdisk), line)
    return _publish(target, files.INSTANCE, content, mode, secret=secrets.token_urlsafe(32))


def _publish(target: Target, use: str, content: iso.Content, mode: str, *, secret: str) -> str:
    url = service_addresses.of_files(target, outside=True)
    loaders = iso.loaders(target, mode)
    identity = f"{secret} {content.digest()} {loaders.digest()}"
    name = hashlib.sha256(identity.encode()).hexdigest()[:32]
    root = files.http_root(target.options)
    path = files.folder(target, root, use, name) / NAME
    if not path.exists():
        iso.build(path, content, loaders)
        path.chmod(int(target.options["redfish"]["file_permission"], 8))
    return f"{url}/{path.relative_to(root)}"


def _authorities(target: Target) -> dict[str, bytes]:
    """Return the CA certificates for the API, if any, and the agent's setting for them."""
    path = target.options["agent"]["api_ca_file"]
    if not path:
        return {}
    try:
        authorities = Path(path).read_bytes()
    except OSError as error:
        raise BadImage(f"[agent]api_ca_file: {path}: {error.strerror}") from error
    return {_CA: authorities, _CA_CONFIG: f"[DEFAULT]\ncafile = /{_CA}\n".encode()}
