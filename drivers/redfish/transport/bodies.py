"""
Reading of the bodies that BMCs send: compressed ones, malformed JSON, and errors of any form.

A document is read as its BMC meant it, as far as databases and clients can hold it. Limits of size
and of the number of values hold for the unpacked body.
"""

import codecs
import json
import math
import re
import zlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson

from drivers.core.errors import Unexpected
from drivers.net import json_nul
from drivers.net.answers import LONGEST, check_body
from drivers.redfish.transport.conversions import entry, printable

#: Most characters of the words of an error.
LONGEST_WORDS = 1000
#: Numbers of 64 bits, the longest whole ones that JSON of this service holds.
_LEAST, _MOST = -(2**63), 2**64 - 1
_GZIP = b"\x1f\x8b"
#: Content-Encodings that are unpacked.
_PACKED = frozenset({"gzip", "x-gzip", "deflate"})
#: Byte order marks, the longer ones first.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: Keys of an error's text in bodies that are not Redfish's, the most telling first.
_KEYS_OF_WORDS = ("message", "detail", "description", "error_description", "reason", "error")
_TAGS = re.compile(r"<(script|style|head)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_SPACE = re.compile(r"\s+")


class MalformedDocument(Unexpected):
    """A document of a BMC cannot be read; others of the same BMC may be."""


def unpacked(name: str, headers: Mapping[str, str], body: bytes) -> bytes:
    """
    Unpack a body that is gzip or deflate, as its first bytes say: some BMCs omit the header. The
    text is UTF-8 afterwards, without a byte order mark.

    name: of the BMC, for errors.

    Raises MalformedDocument: too long, another encoding, or a zip archive.
    """
    encoding = headers.get("Content-Encoding", "").strip().lower()
    if headers.get("Content-Type", "").strip().lower().startswith("application/zip"):
        raise MalformedDocument(f"{name} sent a zip archive in place of a document")
    if encoding not in _PACKED and encoding not in {"", "identity"}:
        raise MalformedDocument(f"{name} sent a document compressed as {printable(encoding)!r}")
    try:
        if body.startswith(_GZIP):
            body = _inflated(body, wbits=31)
        elif encoding == "deflate":
            body = _deflated(body)
    except zlib.error as error:
        raise MalformedDocument(f"{name} sent a malformed compressed document: {error}") from None
    try:
        check_body(name, body, LONGEST)
    except Unexpected as error:
        raise MalformedDocument(str(error)) from None
    return _utf8(body)


def _utf8(body: bytes) -> bytes:
    """Return a body without a byte order mark, in the encoding of JSON."""
    for byte_order_mark, encoding in _MARKS:
        if body.startswith(byte_order_mark):
            return body[len(byte_order_mark) :].decode(encoding, "replace").encode()
    return body.removeprefix(codecs.BOM_UTF8)


def _deflated(body: bytes) -> bytes:
    """Unpack deflate with its header, as RFC 9110 has it, or without; a plain body is kept."""
    for wbits in (zlib.MAX_WBITS, -zlib.MAX_WBITS):
        try:
            return _inflated(body, wbits)
        except zlib.error:
            continue
    return body


def _inflated(body: bytes, wbits: int) -> bytes:
    """Unpack all members of a stream, up to one byte beyond the limit."""
    content = b""
    while body and len(content) <= LONGEST:
        member = zlib.decompressobj(wbits)
        content += member.decompress(body, LONGEST + 1 - len(content))
        if len(content) <= LONGEST and not member.eof:
            raise zlib.error("incomplete")
        body = member.unused_data.lstrip(b"\0")  # padding
    return content


def parsed(name: str, body: bytes) -> Any:
    """
    Parse a body as JSON; {} for an empty one.

    Bytes that are not UTF-8 and halves of surrogate pairs become U+FFFD, NUL is removed, NaN and
    numbers beyond all bounds become null, whole numbers of more than 64 bits fractions. Control
    characters in texts are accepted.

    Raises MalformedDocument.
    """
    if not body.strip():
        return {}
    try:
        return orjson.loads(json_nul.removed(body))
    except orjson.JSONDecodeError:
        pass
    try:
        return _storable(_lenient.decode(_text(body)))
    except (ValueError, RecursionError):
        raise MalformedDocument(f"{name} did not send a JSON document") from None


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace").replace("\0", "").strip()


def _whole(digits: str) -> int | float | None:
    if len(digits) > len(str(_LEAST)):
        return _fraction(digits)
    number = int(digits)
    return number if _LEAST <= number <= _MOST else float(number)


def _fraction(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


_lenient = json.JSONDecoder(
    strict=False, parse_int=_whole, parse_float=_fraction, parse_constant=lambda _word: None
)


def _storable(value: object) -> object:
    """Return a JSON value without NUL and without halves of surrogate pairs in its texts."""
    if isinstance(value, str):
        if not value.isascii():
            value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value.replace("\0", "")
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return value


def document(name: str, body: bytes) -> dict[str, Any]:
    """
    Parse a body as a JSON object.

    Raises MalformedDocument.
    """
    value = parsed(name, body)
    if not isinstance(value, dict):
        raise MalformedDocument(f"{name} did not send a JSON object")
    return value


def error_of(name: str, status: int, reason: str, body: bytes) -> dict[str, Any]:
    """
    Return the body of an error in the form of DSP0266, also of a page, a list or a text.

    The keys are code, message and @Message.ExtendedInfo (a list of objects). The message is the
    BMC's own text: all extended messages, else the body, else the HTTP reason.
    """
    try:
        value = parsed(name, body)
    except MalformedDocument:
        value = _text(body)
    error = entry(value, "error")
    source = error if isinstance(error, dict) else value
    messages = entry(source, "@Message.ExtendedInfo")
    messages = messages if isinstance(messages, list) else [messages]
    extended = [item for item in messages if isinstance(item, dict)]
    texts = [_words(entry(item, "Message")) for item in extended]
    words = "; ".join(dict.fromkeys(filter(None, texts))) or _words(source)
    code = entry(source, "code")
    return {
        "code": code if isinstance(code, str) else "Base.1.0.GeneralError",
        "message": words or _words(code) or reason or _phrase(status),
        "@Message.ExtendedInfo": extended,
    }


def _words(value: object, depth: int = 3) -> str:
    """Return the text of an error: of a text or page itself, of an object by its telling keys."""
    if isinstance(value, str):
        text = _SPACE.sub(" ", _TAGS.sub(" ", value[: 4 * LONGEST_WORDS]))
        return printable(text).strip()[:LONGEST_WORDS]
    if depth and isinstance(value, list):
        return "; ".join(filter(None, (_words(item, depth - 1) for item in value[:10])))
    if depth and isinstance(value, dict):
        lower = {key.lower(): item for key, item in value.items()}
        return next(filter(None, (_words(lower.get(key), depth - 1) for key in _KEYS_OF_WORDS)), "")
    return ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
