"""
Remote framebuffer protocol (RFB, RFC 6143), by which VNC shows a screen: messages of viewers.

A viewer is not trusted: its bytes are cut into messages, and only those of a known form pass. So
keys and pointer of a viewer who may only watch are recognized among its other messages, and the
answers of a server need not be understood: `SetEncodings` passes only encodings that add no
other messages to the protocol.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

VERSION = b"RFB 003.008\n"
#: Security types.
NONE, VNC_AUTHENTICATION = 1, 2
#: Result of the security handshake.
OK = bytes(4)
#: Type of `SetEncodings`.
SET_ENCODINGS = 2
#: Encodings that pass: raw, copied and compressed rectangles, without JPEG, which the page's policy
#: refuses; and of the pseudo-encodings: size of the screen, last rectangle, codes of keys
#: (QEMU), levels of compression.
ENCODINGS = frozenset({0, 1, 2, 5, 6, 7, 16, -223, -224, -258, *range(-256, -246)})
#: Most bytes of a message with a variable length: a pasted text, a list of encodings.
LONGEST = 64 << 10
_VERSION = re.compile(rb"RFB (\d{3})\.(\d{3})\n")


class Malformed(ValueError):
    """The other side does not follow the protocol; one sentence says how."""


class Message(NamedTuple):
    """A message of a viewer."""

    data: bytes
    is_input: bool  # keys, pointer, pasted text


class _Form(NamedTuple):
    """Length of a kind of message: a fixed part, in which there may be a number of items."""

    size: int
    is_input: bool = False
    number: slice = slice(0, 0)  # place of the number of items
    item: int = 0  # size of an item


#: Type of message -> its form.
_FORMS = {
    0: _Form(20),  # SetPixelFormat
    SET_ENCODINGS: _Form(4, number=slice(2, 4), item=4),
    3: _Form(10),  # FramebufferUpdateRequest
    4: _Form(8, is_input=True),  # KeyEvent
    5: _Form(6, is_input=True),  # PointerEvent
    6: _Form(8, is_input=True, number=slice(4, 8), item=1),  # ClientCutText
    255: _Form(12, is_input=True),  # QEMU: a key with its code
}


def version_of(line: bytes) -> tuple[int, int]:
    """
    Return the version that the other side names, as the protocol has it: 3.3, 3.7 or 3.8.

    Unknown minor versions count as 3.3, as the protocol demands; higher ones than 3.8, which
    servers of Apple and RealVNC name, as 3.8.

    Raises Malformed.
    """
    match = _VERSION.fullmatch(line)
    if not match:
        raise Malformed("it does not speak RFB, the protocol of VNC")
    version = int(match[1]), int(match[2])
    if version < (3, 3):
        raise Malformed(f"it speaks RFB {version[0]}.{version[1]}, which is older than 3.3")
    if version >= (3, 8):
        return 3, 8
    return (3, 7) if version == (3, 7) else (3, 3)


@dataclass(slots=True)
class Messages:
    """Cuts the bytes of a viewer into messages, after its handshake."""

    _buffer: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> list[Message]:
        """Add bytes; return the messages that are whole. Raises Malformed."""
        self._buffer += data
        messages = []
        while self._buffer and (message := self._next()) is not None:
            messages.append(message)
        return messages

    def _next(self) -> Message | None:
        kind = self._buffer[0]
        form = _FORMS.get(kind)
        if form is None or (kind == 255 and len(self._buffer) > 1 and self._buffer[1]):
            raise Malformed(f"message type {kind} of a viewer is unknown")
        if len(self._buffer) < form.size:
            return None
        size = form.size + form.item * int.from_bytes(self._buffer[form.number])
        if size > form.size + LONGEST:
            raise Malformed(f"a message of {size} bytes is too long")
        if len(self._buffer) < size:
            return None
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        if kind == SET_ENCODINGS:
            data = _with_known_encodings(data)
        return Message(data, form.is_input)


def _with_known_encodings(message: bytes) -> bytes:
    """Return `SetEncodings` without the encodings that do not pass."""
    items = [message[begin : begin + 4] for begin in range(4, len(message), 4)]
    passed = [item for item in items if int.from_bytes(item, signed=True) in ENCODINGS]
    return message[:2] + len(passed).to_bytes(2) + b"".join(passed)


@dataclass(slots=True)
class Viewer:
    """
    A connection of a viewer, whose identity is known already: it needs no authentication.

    It first gets `VERSION`.
    """

    is_ready: bool = False  # whether the handshake is over
    _version: tuple[int, int] = (0, 0)
    _security_is_chosen: bool = False
    _buffer: bytearray = field(default_factory=bytearray)
    _messages: Messages = field(default_factory=Messages)

    def feed(self, data: bytes) -> tuple[bytes, list[Message]]:
        """Add bytes; return what the handshake answers, and messages after it. Raises Malformed."""
        if self.is_ready:
            return b"", self._messages.feed(data)
        self._buffer += data
        answer = b""
        if not self._version[0] and len(self._buffer) >= len(VERSION):
            self._version = version_of(self._taken(len(VERSION)))
            self._security_is_chosen = self._version == (3, 3)
            answer += NONE.to_bytes(4) if self._security_is_chosen else bytes((1, NONE))
        if self._version[0] and not self._security_is_chosen and self._buffer:
            if self._taken(1) != bytes((NONE,)):
                raise Malformed("the viewer asks for a security type that was not offered")
            self._security_is_chosen = True
            answer += OK if self._version == (3, 8) else b""
        if self._security_is_chosen and self._buffer:
            self._taken(1)  # ClientInit: whether other viewers may stay, which is no choice here
            self.is_ready = True
            return answer, self._messages.feed(bytes(self._buffer))
        return answer, []

    def _taken(self, size: int) -> bytes:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data
