"""Boot media with kernel parameters: creation, download, and search for the parameters."""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import aiohttp

CHUNK = 256 * 1024
SECTOR = 2048
#: No limit for a whole download, as images may be large.
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=60)
#: Bytes of a chunk that are searched again with the next one, as a parameter may lie across both.
OVERLAP = 8192
PARAMETER = re.compile(rb"(ipa-[a-z0-9-]+)=([!#-&(-~]+)")
#: Paths of kernel and ramdisk on the control endpoint, for media that the service builds.
PARTS = ("/agent.kernel", "/agent.ramdisk")


class Unreadable(Exception):
    """An image cannot be read; the message has its URL and the reason."""


def medium(parameters: Mapping[str, str]) -> bytes:
    """Return an image with the header of an ISO 9660 file system and kernel parameters as text."""
    line = " ".join(f"{name}={value}" for name, value in parameters.items())
    text = f"linux /vmlinuz nofb {line} \n".encode()
    primary = b"\x01CD001\x01\x00" + b"LINUX".ljust(32) + b"INGOT-AGENT".ljust(32)
    image = bytes(16 * SECTOR) + primary.ljust(SECTOR, b"\x00")
    image += b"\xffCD001\x01".ljust(SECTOR, b"\x00")
    return image + text.ljust(-(-len(text) // SECTOR) * SECTOR, b"\x00")


def part(name: str) -> bytes:
    """Return the content of a kernel or ramdisk: fixed bytes."""
    return hashlib.shake_256(name.encode()).digest(CHUNK)


async def read(
    client: aiohttp.ClientSession, url: str, *, insecure: bool = False
) -> AsyncIterator[bytes]:
    """Yield the content of a http, https or file URL, in chunks. Raises Unreadable."""
    try:
        if url.startswith("file:"):
            image = await asyncio.to_thread(Path(unquote(urlsplit(url).path)).open, "rb")
            with image:
                while piece := await asyncio.to_thread(image.read, CHUNK):
                    yield piece
            return
        async with client.get(url, ssl=not insecure, timeout=TIMEOUT) as answer:
            if answer.status != 200:
                raise Unreadable(f"{url}: status {answer.status}")
            async for piece in answer.content.iter_chunked(CHUNK):
                yield piece
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise Unreadable(f"{url}: {error or type(error).__name__}") from error


def parameters(text: bytes) -> dict[str, str]:
    """Return the kernel parameters `ipa-...=value` in a text. The first one of a name wins."""
    values: dict[str, str] = {}
    for match in PARAMETER.finditer(text):
        values.setdefault(match[1].decode(), match[2].decode())
    return values


async def scan(client: aiohttp.ClientSession, url: str) -> dict[str, str]:
    """Return the kernel parameters in the image at a URL. Raises Unreadable."""
    values: dict[str, str] = {}
    window = b""
    async for piece in read(client, url, insecure=True):
        window = window[-OVERLAP:] + piece
        for match in PARAMETER.finditer(window):
            if match.end() < len(window):  # else it may continue in the next chunk
                values.setdefault(match[1].decode(), match[2].decode())
    for name, value in parameters(window[-OVERLAP:]).items():
        values.setdefault(name, value)
    return values
