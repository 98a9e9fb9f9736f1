"""
Parsing of documents on a command line: in place, in a file, or on standard input.
"""

import base64
import gzip
import json
from collections.abc import Iterable
from typing import Any

from app.cli.terminal import secrets
from app.cli.terminal.errors import Usage
from app.cli.terminal.inputs import content
from app.cli.terminal.output import Document
from app.text.masking import is_secret

_GZIP = b"\x1f\x8b"


def document(option: str, text: str) -> Any:
    """Parse JSON in place, in a file, or on standard input ("-"). Raises Usage."""
    source = (
        text if text.lstrip()[:1] in ("[", "{") else content(option, text).decode(errors="replace")
    )
    try:
        return json.loads(source)
    except ValueError as error:
        raise Usage(f"{option}: this is not JSON: {error}") from error


def lines(option: str, path: str) -> list[str]:
    """Read the lines of a file, or of standard input ("-"). Raises Usage."""
    return content(option, path).decode(errors="replace").splitlines()


def config_drive(option: str, text: str) -> object:
    """
    Read a configuration drive: JSON or a URL in place; a file of JSON, of base64, or an image.

    Raises Usage.
    """
    if text.lstrip()[:1] == "{":
        return document(option, text)
    if "://" in text:
        return text
    image = content(option, text)
    if image.lstrip()[:1] == b"{":
        return document(option, image.decode(errors="replace"))
    if image.isascii():
        return image.decode()
    packed = image if image.startswith(_GZIP) else gzip.compress(image)
    return base64.b64encode(packed).decode()


def pairs(option: str, texts: Iterable[str]) -> Document:
    """
    Parse KEY=VALUE; a value that is no JSON is taken as text.

    The value of a secret key may be its source: `@FILE`, `@-` or `@` (`app.cli.terminal.secrets`).

    Raises Usage.
    """
    result = {}
    for key, value in texts_of(option, texts).items():
        if is_secret(key):
            secret = secrets.read_or_warn(option, key, value)
            if secret != value:
                result[key] = secret
                continue
        try:
            result[key] = json.loads(value)
        except ValueError:
            result[key] = value
    return result


def texts_of(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Parse KEY=VALUE; every value is text. Raises Usage."""
    result = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise Usage(f"{option}: expected KEY=VALUE, not {text!r}")
        result[key] = value
    return result
