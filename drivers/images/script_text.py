"""
Validation of text from nodes for boot scripts: no boot loader may run a part of it as a command.

A line is a command to all loaders. iPXE splits it at blanks: the words `||`, `&&` and `;` start
another command, and a word with a leading `#` is a comment. `${` starts the name of an iPXE
setting anywhere in a word, and a backslash at the end of a line joins the next line. The service's
templates and settings may use all of these.
"""

from drivers.core.errors import InvalidDriverInfo
from drivers.net import urls

_OPERATORS = frozenset({"||", "&&", ";"})


def line(value: object, field: str) -> str:
    """
    Return words such as kernel arguments. field: the field, for errors.

    Raises InvalidDriverInfo: more than one line, or a part that a loader would run.
    """
    text = str(value or "").strip()
    if not text.isprintable():
        raise InvalidDriverInfo(f"{field}: must be one line of printable characters")
    if any(map(_runs_command, text.split())):
        raise InvalidDriverInfo(
            f"{field}: a boot loader would run a part of it as a command; no word may be && or ||"
            " or ; nor begin with #, end with a backslash or contain ${"
        )
    return text


def word(value: object, field: str) -> str:
    """
    Return one word or an empty text. field: the field, for errors.

    Raises InvalidDriverInfo: it has spaces, or a part that a loader would run.
    """
    text = line(value, field)
    if " " in text:
        raise InvalidDriverInfo(f"{field}: must not contain spaces")
    return text


def url(value: object, field: str, schemes: tuple[str, ...] = urls.WEB) -> str:
    """
    Return a URL with one of these schemes. field: the field, for errors.

    Raises InvalidDriverInfo: malformed, or unsafe in a boot script.
    """
    return word(urls.checked(value, field, schemes), field)


def _runs_command(token: str) -> bool:
    return token in _OPERATORS or token.startswith("#") or token.endswith("\\") or "${" in token
