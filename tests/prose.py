"""
Wording check of docstrings, comments, messages and documentation against docs/style.md.

`python -m tests.prose [path ...]` prints each match with its rule, and exits 1 if there is one.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = ("app", "workers", "drivers", "migrations", "tests", "docs")
PAGES = ("*.md", "docs/**/*.md", "compose/*", "compose/.env.example")
#: Files that quote the banned words.
QUOTING = {"docs/style.md", "tests/prose.py", "tests/unit/test_prose.py"}

_PREPOSITIONS = (
    "about|after|against|as|at|before|behind|beside|between|beyond|but|by|for|from|in|into|like|of|on"
    "|over|per|than|to|under|until|upon|with|without"
)
#: name -> pattern, and the rule that a match breaks.
RULES: dict[str, tuple[re.Pattern[str], str]] = {
    name: (re.compile(pattern, re.IGNORECASE | re.MULTILINE), rule)
    for name, (pattern, rule) in {
        "came-of": (
            r"\b(?:what|that|which) (?:came|comes|becomes?|became) of\b",
            "name the result",
        ),
        "whoever": (r"\b(?:who(?:m|se)?|what)ever\b", "name the actor"),
        "nobody": (r"\b(?:no|some|any)body\b", "name the actor"),
        "anew": (r"\banew\b", "again"),
        "lest": (r"\blest\b", "so that ... not"),
        "told": (r"\btold\b", "name the message and its sender: reported, logged, notified"),
        "be-had": (r"\b(?:be|is|are|was|were|been) had\b", "available, fetched"),
        "sign-of-life": (r"\bsigns? of life\b", "heartbeat"),
        "as-above": (
            r"\bas above\b|\A(?:the same|likewise)\b|(?<=[.;:] )(?:the same|likewise)\b(?! \w)",
            "repeat the fact, or link to it",
        ),
        "own": (r"\b(?:an|the) own\b", "its own"),
        "clause-first": (
            r"\A(?:what|who|whom|whose|which|why)\b(?!.*\?)|\Awhere\b(?![^.]*,)(?!.*\?)",
            "begin with a verb or a noun",
        ),
        "clause-as-subject": (
            r"(?<=[.;:] )(?:what|who|whom|whose)\b(?![^.;:]*\?)",
            "a noun as the subject",
        ),
        "clause-after-preposition": (rf"\b(?:{_PREPOSITIONS}) (?:what|who)\b", "a noun"),
        "look-what": (r"\blook(?:s|ed|ing)? (?:what|who|why|whether)\b", "check, read"),
    }.items()
}

_TRIGGERS = re.compile(
    r"\b(?:who|what|which|where|why|that|same|above|likewise|own|had|told|anew|lest|sign|look"
    r"|(?:no|some|any)body)",
    re.IGNORECASE,
)
_LITERALS = re.compile(
    r"""(?P<comment>\#[^\n]*)"""
    r"""|(?P<quotes>\"{3}|'{3})(?P<long>.*?)(?P=quotes)"""
    r"""|(?P<quote>["'])(?P<short>(?:\\.|(?!(?P=quote))[^\\\n])*)(?P=quote)""",
    re.DOTALL,
)
_ESCAPES = re.compile(r"\\[ntr\n]")
_FIELD = re.compile(r"\{[^{}]*\}")
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"[*]|(?:\A|(?<=\s))#:?(?=\s)")


@dataclass(frozen=True)
class Match:
    """A banned phrase in a text."""

    line: int
    rule: str
    text: str


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line number and words of each text in a file."""
    source = path.read_text()
    if path.suffix == ".py":
        yield from _python(source)
    elif path.suffix == ".md":
        yield from _markdown(source)
    else:
        yield from _python(re.sub(r"^[^#\n]+", "=", source, flags=re.MULTILINE))


def _python(source: str) -> Iterator[tuple[int, str]]:
    """Comments, docstrings, and strings of three words or more: messages, hints, help."""
    begin, end, prose, parts = 0, 0, False, list[str]()
    for literal in (*_LITERALS.finditer(source), None):
        joins = (
            literal
            and parts
            and source[end : literal.start()].strip() in ("", "f", "r")
            and bool(literal["comment"]) == parts[0].startswith("#")
        )
        if not joins and parts:
            words = _plain((" " if parts[0].startswith("#") else "").join(parts))
            if words.count(" ") >= (0 if prose else 2):
                yield source.count("\n", 0, begin) + 1, words
            parts = []
        if literal:
            begin = begin if parts else literal.start()
            end = literal.end()
            prose = not literal["quote"]
            parts.append(literal["comment"] or literal["long"] or literal["short"] or "")


def _markdown(source: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, list items, headings and table cells; no code blocks."""
    begun, words, fenced = 0, "", False
    for number, line in enumerate([*source.splitlines(), ""], 1):
        bare = line.strip()
        if bare.startswith("```"):
            fenced = not fenced
            bare = ""
        elif fenced:
            continue
        starts = bare.startswith(("|", "#", "<!--")) or re.match(r"[-*] |\d+\. ", bare)
        if (not bare or starts) and words:
            yield begun, _plain(words)
            words = ""
        if bare.startswith("|"):
            yield from ((number, _plain(cell)) for cell in bare.strip("|").split(" | "))
        elif bare.startswith("#"):
            # A heading is a name: only its words count, not its first one.
            yield number, "Heading " + _plain(bare.lstrip("# "))
        elif bare and not bare.startswith("<!--"):
            begun = begun if words else number
            words += " " + re.sub(r"^(?:[-*]|\d+\.) ", "", bare)


def _plain(words: str) -> str:
    """A text without code, links and emphasis, in one line."""
    words = _CODE.sub("X", _FIELD.sub("X", _ESCAPES.sub(" ", words)))
    words = _LINK.sub(r"\1", words)
    return " ".join(_MARKS.sub(" ", words).split())


def matches(path: Path) -> list[Match]:
    """The banned phrases in a file."""
    return [
        Match(line, name, words)
        for line, words in texts(path)
        if _TRIGGERS.search(words)
        for name, (pattern, _) in RULES.items()
        for _ in pattern.finditer(words)
    ]


def files() -> list[Path]:
    """All files whose wording is checked."""
    paths = [path for folder in CODE for path in (ROOT / folder).rglob("*.py")]
    paths += [path for pattern in PAGES for path in ROOT.glob(pattern) if path.is_file()]
    return sorted({path for path in paths if str(path.relative_to(ROOT)) not in QUOTING})


def counts() -> dict[str, int]:
    """Number of banned phrases by file; files without one are left out."""
    phrase_counts = {str(path.relative_to(ROOT)): len(matches(path)) for path in files()}
    return {path: count for path, count in phrase_counts.items() if count}


def main(paths: list[str]) -> int:
    any_match = False
    for path in [Path(name).resolve() for name in paths] or files():
        for match in matches(path):
            any_match = True
            place = f"{path.relative_to(ROOT)}:{match.line}"
            sys.stdout.write(f"{place}: {match.rule} ({RULES[match.rule][1]}): {match.text}\n")
    return int(any_match)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
