"""
The screen of a simulated machine, as a program: `python -m drivers.simulator.screen PORT`.

A VNC server (RFB 3.8) on loopback. It shows colour bars, and below them the keys that were pressed,
each as the bits of its keysym; and a square where the pointer was last pressed. The variable
VNC_PASSWORD has its password; without one it needs no authentication.
"""

import asyncio
import hmac
import os
import secrets
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from drivers.net import rfb
from drivers.net.rfb_login import response

PASSWORD = "VNC_PASSWORD"
NAME = b"simulated machine"
WIDTH, HEIGHT, SQUARE = 640, 400, 20
#: Of the bars, from the left.
BARS = (
    (255, 255, 255), (255, 255, 0), (0, 255, 255), (0, 255, 0),
    (255, 0, 255), (255, 0, 0), (0, 0, 255), (64, 64, 64),
)  # fmt: skip
#: Of the bits of keys, and of the space around them.
SET, UNSET, AROUND, POINTER = (255, 255, 255), (0, 0, 0), (32, 32, 96), (255, 128, 0)
#: Row of pixels at which the bits of keys begin; number of bits of each.
KEYS_AT, BITS = 200, 8
#: 32 bits per pixel, true colour, each colour 0 to 255.
FORMAT = bytes((32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0))

Colour = tuple[int, int, int]


@dataclass(slots=True)
class Picture:
    """The picture of the screen, the same for all viewers."""

    keys: deque[int] = field(default_factory=lambda: deque(maxlen=WIDTH // SQUARE))
    pointer: tuple[int, int] | None = None
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    version: int = 0

    def colour(self, column: int, row: int) -> Colour:
        """Return the colour of a square."""
        if (column, row) == self.pointer:
            return POINTER
        if row * SQUARE < KEYS_AT:
            return BARS[column * SQUARE * len(BARS) // WIDTH]
        bit = row - KEYS_AT // SQUARE
        if column < len(self.keys) and bit < BITS:
            return SET if self.keys[column] >> bit & 1 else UNSET
        return AROUND

    def pixels(self, pixel_format: bytes) -> bytes:
        """Return all pixels, in a format of 32 bits per pixel."""
        order: Literal["big", "little"] = "big" if pixel_format[2] else "little"
        shifts = pixel_format[10:13]

        def pixel(colour: Colour) -> bytes:
            value = sum(part << shift for part, shift in zip(colour, shifts, strict=True))
            return value.to_bytes(4, order)

        lines = []
        for row in range(HEIGHT // SQUARE):
            line = b"".join(
                pixel(self.colour(column, row)) * SQUARE for column in range(WIDTH // SQUARE)
            )
            lines.append(line * SQUARE)
        return b"".join(lines)

    async def take(self, message: bytes) -> None:
        """Take a message of a viewer with input."""
        earlier_state = (*self.keys, self.pointer)
        if (message[0] == 4 and message[1]) or (message[0] == 255 and message[3]):
            self.keys.append(int.from_bytes(message[4:8]))
        elif message[0] == 5 and message[1]:
            x, y = int.from_bytes(message[2:4]), int.from_bytes(message[4:6])
            self.pointer = x // SQUARE, y // SQUARE
        if earlier_state != (*self.keys, self.pointer):
            async with self.changed:
                self.version += 1
                self.changed.notify_all()


class Viewer:
    """A connection of a viewer."""

    def __init__(
        self, picture: Picture, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._picture, self._reader, self._writer = picture, reader, writer
        self._format, self._seen_version = FORMAT, -1
        self._updates: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve the viewer until it leaves, or sends what is not understood."""
        try:
            if await self._admit():
                await self._follow()
        except (OSError, ValueError, asyncio.IncompleteReadError):
            pass
        finally:
            for update in self._updates:
                update.cancel()
            self._writer.close()

    async def _admit(self) -> bool:
        """Do the handshake; return whether the viewer knows the password."""
        password = os.environ.get(PASSWORD)
        kind = rfb.VNC_AUTHENTICATION if password else rfb.NONE
        self._writer.write(rfb.VERSION)
        if rfb.version_of(await self._reader.readexactly(12)) != (3, 8):
            return False
        self._writer.write(bytes((1, kind)))
        if (await self._reader.readexactly(1))[0] != kind:
            return False
        if password:
            challenge = secrets.token_bytes(16)
            self._writer.write(challenge)
            answer = await self._reader.readexactly(16)
            if not hmac.compare_digest(answer, response(password, challenge)):
                reason = b"wrong password"
                self._writer.write(b"\0\0\0\1" + len(reason).to_bytes(4) + reason)
                return False
        self._writer.write(rfb.OK)
        await self._reader.readexactly(1)
        size = WIDTH.to_bytes(2) + HEIGHT.to_bytes(2)
        self._writer.write(size + FORMAT + len(NAME).to_bytes(4) + NAME)
        return True

    async def _follow(self) -> None:
        messages = rfb.Messages()
        while data := await self._reader.read(4096):
            for message, is_input in messages.feed(data):
                if is_input:
                    await self._picture.take(message)
                elif message[0] == 0:
                    self._format = message[4:20]
                    if self._format[0] != 32 or not self._format[3]:
                        return
                elif message[0] == 3:
                    update = asyncio.create_task(self._update(incremental=bool(message[1])))
                    self._updates.add(update)
                    update.add_done_callback(self._updates.discard)

    async def _update(self, *, incremental: bool) -> None:
        """Send the picture; one that the viewer has seen, only after it has changed."""
        async with self._picture.changed:
            if incremental:
                await self._picture.changed.wait_for(
                    lambda: self._picture.version != self._seen_version
                )
            self._seen_version = self._picture.version
        place = bytes(4) + WIDTH.to_bytes(2) + HEIGHT.to_bytes(2)
        self._writer.write(b"\0\0\0\1" + place + bytes(4) + self._picture.pixels(self._format))
        await self._writer.drain()


async def serve(port: int) -> None:
    """Serve the screen until the process ends."""
    picture = Picture()
    server = await asyncio.start_server(
        lambda reader, writer: Viewer(picture, reader, writer).serve(), "127.0.0.1", port
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
