"""Files that options name, or standard input in their place."""

import sys
from pathlib import Path

from app.cli.terminal.errors import Usage


def content(option: str, path: str) -> bytes:
    """Read a file, or standard input ("-"). Raises Usage."""
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).expanduser().read_bytes()
    except OSError as error:
        raise Usage(f"{option}: {path}: {error.strerror}") from error


def first_line(option: str, path: str) -> str:
    """Read the first line of a file, or of standard input ("-"). Raises Usage."""
    return content(option, path).decode(errors="replace").partition("\n")[0].rstrip("\r")
