"""Secrets on a command line: in a file, on standard input, or typed; all users see arguments."""

import sys
from getpass import getpass

import typer

from app.cli.terminal.errors import Usage
from app.cli.terminal.inputs import first_line

SOURCES = "@FILE, @- for a line of standard input, or @ to type it"


def read(option: str, name: str, source: str) -> str:
    """
    Read a secret from its source: `@FILE` (its first line), `@-`, or `@`.

    name: of the secret, for the question.

    Raises Usage: it cannot be read, is empty, or the source is the secret itself.
    """
    if not source.startswith("@"):
        raise Usage(f"{option} {name}: all users of this host can read arguments; give {SOURCES}")
    path = source[1:]
    if path == "-":
        line = sys.stdin.buffer.readline()
        try:
            secret = line.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise Usage(f"{option} {name}: standard input is not UTF-8") from error
    elif path:
        secret = first_line(option, path)
    elif sys.stdin.isatty():
        secret = getpass(f"{name}: ")
    else:
        raise Usage(f"{option} {name}: there is no terminal to type it; give {SOURCES}")
    if not secret:
        raise Usage(f"{option} {name}: {source} has no secret")
    return secret


def read_or_warn(option: str, name: str, text: str) -> str:
    """Read a secret from its source; take a text that is none as the secret, with a warning."""
    if text.startswith("@"):
        return read(option, name, text)
    warn_of_argument(option, name)
    return text


def warn_of_argument(option: str, name: str) -> None:
    """Warn of a secret that was given as an argument."""
    text = f"ingot: {option} {name}: all users of this host can read arguments; better {SOURCES}"
    typer.echo(text, err=True)
