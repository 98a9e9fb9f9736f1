"""Boot media: made with kernel parameters inside, fetched, and read for those parameters."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import aiohttp

CHUNK = 256 * 1024
SECTOR = 2048
#: An image may be large: only silence ends the reading of one.
PATIENCE = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
#: A parameter may lie across two chunks of the image: this much is looked at again.
OVERLAP = 8192
PARAMETER = re.compile(rb"(ipa-[a-z0-9-]+)=([!#-&(-~]+)")
#: What boots the agent, where the service makes a medium of it.
PARTS = ("/agent.kernel", "/agent.ramdisk")


class Unreadable(Exception):
    """An image could not be read; the message says which and why."""


def medium(parameters: Mapping[str, str]) -> bytes:
    """An image that begins like an ISO 9660 file system and holds kernel parameters as text."""
    line = " ".join(f"{name}={value}" for name, value in parameters.items())
    text = f"linux /vmlinuz nofb {line} \n".encode()
    primary = b"\x01CD001\x01\x00" + b"LINUX".ljust(32) + b"INGOT-AGENT".ljust(32)
    image = bytes(16 * SECTOR) + primary.ljust(SECTOR, b"\x00")
    image += b"\xffCD001\x01".ljust(SECTOR, b"\x00")
    return image + text.ljust(-(-len(text) // SECTOR) * SECTOR, b"\x00")


def part(name: str) -> bytes:
    """A kernel or a ramdisk: bytes that are always the same."""
    return hashlib.shake_256(name.encode()).digest(CHUNK)


async def read(
    client: aiohttp.ClientSession, url: str, *, insecure: bool = False
) -> AsyncIterator[bytes]:
    """The bytes behind a http, https or file URL, in pieces. Raises Unreadable."""
    try:
        if url.startswith("file:"):
            image = await asyncio.to_thread(Path(unquote(urlsplit(url).path)).open, "rb")
            with image:
                while piece := await asyncio.to_thread(image.read, CHUNK):
                    yield piece
            return
        async with client.get(url, ssl=not insecure, timeout=PATIENCE) as answer:
            if answer.status != 200:
                raise Unreadable(f"{url}: status {answer.status}")
            async for piece in answer.content.iter_chunked(CHUNK):
                yield piece
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise Unreadable(f"{url}: {error or type(error).__name__}") from error


def parameters(text: bytes) -> dict[str, str]:
    """The kernel parameters `ipa-...=value` in a text, the first of each name."""
    found: dict[str, str] = {}
    for match in PARAMETER.finditer(text):
        found.setdefault(match[1].decode(), match[2].decode())
    return found


async def scan(client: aiohttp.ClientSession, url: str) -> dict[str, str]:
    """The kernel parameters in the image behind `url`. Raises Unreadable."""
    found: dict[str, str] = {}
    window = b""
    async for piece in read(client, url, insecure=True):
        window = window[-OVERLAP:] + piece
        for match in PARAMETER.finditer(window):
            if match.end() < len(window):  # else it may go on in the next piece
                found.setdefault(match[1].decode(), match[2].decode())
    for name, value in parameters(window[-OVERLAP:]).items():
        found.setdefault(name, value)
    return found
