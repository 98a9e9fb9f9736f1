"""
Validation of text from nodes for boot scripts: no boot loader may run a part of it as a command.

A line is a command to all loaders. iPXE splits it at blanks: the words `||`, `&&` and `;` begin
another command, and a word that begins with `#` is a comment. `${` begins the name of an iPXE
setting anywhere in a word, and a backslash at the end of a line joins the next line. The service's
templates and settings may use all of these.
"""

from typing import Any

from drivers.core.errors import InvalidDriverInfo
from drivers.net import urls

_OPERATORS = frozenset({"||", "&&", ";"})


def line(value: Any, where: str) -> str:
    """
    Return words such as kernel arguments. where: the field, for errors.

    Raises InvalidDriverInfo: more than one line, or a part that a loader would run.
    """
    text = str(value or "").strip()
    if not text.isprintable():
        raise InvalidDriverInfo(f"{where}: must be one line of printable characters")
    if any(map(_runs_command, text.split())):
        raise InvalidDriverInfo(
            f"{where}: a boot loader would run a part of it as a command; no word may be && or ||"
            " or ; nor begin with #, end with a backslash or contain ${"
        )
    return text


def word(value: Any, where: str) -> str:
    """
    Return one word or an empty text. where: the field, for errors.

    Raises InvalidDriverInfo: it has spaces, or a part that a loader would run.
    """
    text = line(value, where)
    if " " in text:
        raise InvalidDriverInfo(f"{where}: must not contain spaces")
    return text


def url(value: Any, where: str, schemes: tuple[str, ...] = urls.WEB) -> str:
    """
    Return a URL with one of these schemes. where: the field, for errors.

    Raises InvalidDriverInfo: malformed, or unsafe in a boot script.
    """
    return word(urls.checked(value, where, schemes), where)


def _runs_command(each: str) -> bool:
    return each in _OPERATORS or each.startswith("#") or each.endswith("\\") or "${" in each
