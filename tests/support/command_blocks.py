"""
Command blocks of the documentation: commands, and the output that the page shows of them.

A block of `console` has commands after `$ `, each with its output; a block of `sh` has commands alone.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
#: Name of a page -> its file.
PAGES = {
    path.stem: path
    for path in (*sorted(ROOT.glob("docs/*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
}
FENCE = re.compile(r"^( *)```([\w-]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
#: A command that continues in the next line: a backslash at its end.
CONTINUED = re.compile(r"\\$")
#: The begin of a UUID, or what is left out.
ANYTHING = re.compile(r"[0-9a-f]{8}(?:-\.\.\.|…)|\.\.\.|…")
NUMBER = re.compile(r"\d+(?:\.\d+)*")
PARTS = re.compile(f"({ANYTHING.pattern}|{NUMBER.pattern})")
#: End of a word; with other numbers, a noun may have another one.
PLURAL = re.compile(r"(?<=[a-z]{2})s?(?=\W*$)")
#: A command that shows a file.
SHOWS_FILE = re.compile(r"^(?:cat|head -\d+) ([\w./-]+)$")


class Command(NamedTuple):
    """A command of a page."""

    page: str
    line: int
    text: str
    output: tuple[str, ...]  # its output in the page

    def __str__(self) -> str:
        return f"{self.page}.md:{self.line}: {self.text}"


def commands(page: str) -> list[Command]:
    """Return the commands of a page, in its order."""
    return [
        command
        for line, kind, text in fences(page)
        if kind in READERS
        for command in READERS[kind](page, line + 1, text.splitlines())
    ]


def fences(page: str) -> Iterator[tuple[int, str, str]]:
    """Yield (number of the first line, language, text without indentation) of each code block."""
    text = PAGES[page].read_text()
    for match in FENCE.finditer(text):
        indent, kind, block = match.groups()
        lines = [line.removeprefix(indent) for line in block.splitlines()]
        yield text[: match.start()].count("\n") + 1, kind, "\n".join(lines)


def files(page: str) -> dict[str, str]:
    """Return name -> content of the files that commands of a page show."""
    return {
        match[1]: "\n".join((*command.output, ""))
        for command in commands(page)
        if (match := SHOWS_FILE.match(command.text))
    }


def resembles(example: str, output: str) -> bool:
    """
    Whether an output has a line that the page shows.

    Digits, UUIDs and white space may be others, nouns singular or plural with them, and `...`
    stands for anything.
    """
    words = ["".join(_alike(part) for part in PARTS.split(word)) for word in example.split()]
    return re.search(r"\s+".join(words), output) is not None


def _alike(part: str) -> str:
    if ANYTHING.fullmatch(part):
        return r".*?"
    if NUMBER.fullmatch(part):
        return NUMBER.pattern
    return PLURAL.sub("s?", re.escape(part), count=1)


def _of_session(page: str, line: int, lines: list[str]) -> Iterator[Command]:
    starts = [number for number, text in enumerate(lines) if text.startswith("$ ")]
    assert starts[:1] == [0], f"{page}.md:{line}: a block of `console` begins with `$ `"
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        length = _length(lines[start:end])
        text = "\n".join(lines[start : start + length]).removeprefix("$ ")
        output = tuple(filter(None, lines[start + length : end]))
        yield Command(page, line + start, text, output)


def _of_script(page: str, line: int, lines: list[str]) -> Iterator[Command]:
    start = 0
    while start < len(lines):
        length = _length(lines[start:])
        yield Command(page, line + start, "\n".join(lines[start : start + length]), ())
        start += length


def _length(lines: list[str]) -> int:
    """Number of lines of the first command."""
    for number in range(1, len(lines) + 1):
        text = "\n".join(lines[:number])
        loop = re.match(r"for ", text) and not re.search(r"^done$", text, re.MULTILINE)
        quoted = re.sub(r"\\.", "", text).count("'") % 2
        if not (CONTINUED.search(text) or loop or quoted):
            return number
    return len(lines)


READERS = {"console": _of_session, "sh": _of_script}
