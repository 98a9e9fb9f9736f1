"""
What a node may add to a boot script: text in which no boot loader sees a command.

To all loaders a line is a command. iPXE splits it at blanks: the words `||`, `&&` and `;` begin
another command, and one that begins with `#` a comment. `${` begins the name of an iPXE setting
anywhere in a word, and a backslash at the end of a line joins the next line to it. Our own
templates and the settings of the service may use all that.
"""

from typing import Any

from drivers import urls
from drivers.core.errors import InvalidDriverInfo

_OPERATORS = frozenset({"||", "&&", ";"})


def line(value: Any, where: str) -> str:
    """Words such as the arguments of a kernel. where: the field. Raises InvalidDriverInfo."""
    text = str(value or "").strip()
    if not text.isprintable():
        raise InvalidDriverInfo(f"{where}: must be one line of printable characters")
    if any(map(_is_command, text.split())):
        raise InvalidDriverInfo(
            f"{where}: a boot loader would run a part of it as a command; no word may be && or ||"
            " or ; nor begin with #, end with a backslash or contain ${"
        )
    return text


def word(value: Any, where: str) -> str:
    """One word, or none. where: the field. Raises InvalidDriverInfo."""
    text = line(value, where)
    if " " in text:
        raise InvalidDriverInfo(f"{where}: must not contain spaces")
    return text


def url(value: Any, where: str, schemes: tuple[str, ...] = urls.WEB) -> str:
    """A URL with one of these schemes. where: the field. Raises InvalidDriverInfo."""
    return word(urls.checked(value, where, schemes), where)


def _is_command(each: str) -> bool:
    return each in _OPERATORS or each.startswith("#") or each.endswith("\\") or "${" in each
