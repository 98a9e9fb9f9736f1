"""
Grammar of selections: parsing of the text of an expression into a tree.

    expression  := alternative ("or" alternative)*
    alternative := term (["and"] term)*
    term        := "not" term | "(" expression ")" | comparison | word
    comparison  := FIELD OPERATOR value | FIELD ["not"] "in" "(" value ("," value)* ")"

A value is a bare word, in which `*` stands for any characters, or a quoted text, which is taken as
it is. `FIELD=a,b` is `FIELD in (a, b)`. A field of truth values may stand alone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from typing import NoReturn

from app.errors import Invalid
from app.selection.tree import All, Comparison, Not, Operator, Pattern, Some, Tree, Value, Word

#: Most characters of an expression, and of a value.
LONGEST, LONGEST_VALUE = 4096, 255
#: Deepest nesting, most comparisons and words, most words, most wildcards of a value. A word looks
#: at the texts of all nodes. Values of a list that are conditions of their own are comparisons.
DEEPEST, MOST_TERMS, MOST_WORDS, MOST_WILDCARDS = 20, 100, 10, 4


class Kind(StrEnum):
    """Type of a field: which operators and values it takes."""

    TEXT = "text"
    CHOICE = "choice"
    FLAG = "true or false"
    TIME = "time"
    DOCUMENT = "text or number"


ORDERED = (Operator.LESS, Operator.AT_MOST, Operator.MORE, Operator.AT_LEAST)
#: Kind -> its operators; `!=`, `in` and `not in` are made of `=`.
OPERATORS: Mapping[Kind, Sequence[Operator]] = {
    Kind.TEXT: (Operator.EQUAL, Operator.CONTAINS),
    Kind.CHOICE: (Operator.EQUAL, Operator.CONTAINS),
    Kind.FLAG: (Operator.EQUAL,),
    Kind.TIME: ORDERED,
    Kind.DOCUMENT: tuple(Operator),
}
#: Words for an operator on a time.
TIME_WORDS = {"since": Operator.AT_LEAST, "before": Operator.LESS}
TRUTHS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


@dataclass(frozen=True, slots=True)
class FieldType:
    kind: Kind
    choices: Sequence[str] = ()  # of `Kind.CHOICE`
    together: bool = True  # the texts of a list are one condition, and not one each


_BLANK = re.compile(r"\s*")
_SYMBOL = re.compile(r"!=|<=|>=|==|[=~<>]")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_:-]+)*")
_BARE = re.compile(r"[^\s(),\"']+")
_FREE = re.compile(r"[^\s(),\"'=<>~!]+")
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'", re.DOTALL)
_LIST = re.compile(r"(not\s+)?in\s*\(", re.IGNORECASE)
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")
_SPAN = re.compile(r"([0-9]{1,9})([smhdw])")
#: Longest time span; databases count no further back than some thousand years.
LONGEST_SPAN = timedelta(days=36_500)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse(text: str, type_of: Callable[[str], FieldType | None], names: Sequence[str]) -> Tree:
    """
    Parse an expression.

    type_of: returns the type of a field, None if there is none. names: of all fields.

    Raises Invalid: the expression is malformed; the message names the place.
    """
    if len(text) > LONGEST:
        raise Invalid(f"An expression in where has at most {LONGEST} characters")
    return _Parser(text, type_of, names).whole()


class _Parser:
    """The state of one parse: the text, and the place in it."""

    def __init__(
        self, text: str, type_of: Callable[[str], FieldType | None], names: Sequence[str]
    ) -> None:
        self._text, self._type_of, self._names = text, type_of, names
        self._place = self._depth = self._terms = self._words = 0

    def whole(self) -> Tree:
        if "\0" in self._text:
            self._refuse("NUL is no part of an expression", self._text.index("\0"))
        tree = self._expression()
        if not self._at_end():
            self._refuse(f"{self._text[self._place]!r} is not expected here")
        return tree

    def _refuse(self, reason: str, place: int | None = None) -> NoReturn:
        place = self._place if place is None else place
        raise Invalid(f"Character {place + 1} of where: {reason}")

    def _at_end(self) -> bool:
        self._skip(_BLANK)
        return self._place >= len(self._text)

    def _skip(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Pass over a match at the place, and return it."""
        match = pattern.match(self._text, self._place)
        if match is not None:
            self._place = match.end()
        return match

    def _keyword(self, word: str) -> bool:
        """Pass over a word that stands alone; return whether it is there."""
        self._skip(_BLANK)
        end = self._place + len(word)
        following = self._text[end : end + 1]
        if self._text[self._place : end].lower() != word or not (
            not following or following.isspace() or following in "(\"'"
        ):
            return False
        self._place = end
        return True

    def _expression(self) -> Tree:
        parts = [self._alternative()]
        while self._keyword("or"):
            parts.append(self._alternative())
        return parts[0] if len(parts) == 1 else Some(tuple(parts))

    def _alternative(self) -> Tree:
        parts = [self._term()]
        while self._keyword("and") or self._more():
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _more(self) -> bool:
        """Return whether another term follows without a word between."""
        if self._at_end() or self._text[self._place] == ")":
            return False
        place = self._place
        is_or = self._keyword("or")
        self._place = place
        return not is_or

    def _term(self) -> Tree:
        self._skip(_BLANK)
        self._depth += 1
        if self._depth > DEEPEST:
            self._refuse(f"too deep: at most {DEEPEST} levels of parentheses and `not`")
        try:
            if self._keyword("not"):
                return Not(self._term())
            return self._group() if self._next() == "(" else self._simple()
        finally:
            self._depth -= 1

    def _next(self) -> str:
        self._skip(_BLANK)
        return self._text[self._place : self._place + 1]

    def _group(self) -> Tree:
        self._place += 1
        tree = self._expression()
        if self._next() != ")":
            self._refuse("')' is missing")
        self._place += 1
        return tree

    def _simple(self) -> Tree:
        """Parse a comparison or a word."""
        self._count()
        begin = self._place
        for word in ("and", "or"):
            if self._keyword(word):
                self._refuse(f"a comparison or a word is missing before {word!r}", begin)
        field = self._skip(_FIELD)
        if field is not None:
            end, name = self._place, field.group()
            self._skip(_BLANK)
            comparison = self._comparison(name, begin)
            if comparison is not None:
                return comparison
            following = self._text[end : end + 1]
            type_ = self._type_of(name)
            if type_ and type_.kind == Kind.FLAG and (not following or following in " )"):
                self._place = end
                return Comparison(name, Operator.EQUAL, (True,))
        self._place = begin
        return self._word(begin)

    def _count(self) -> None:
        """Count a comparison or a word at the place."""
        self._terms += 1
        if self._terms > MOST_TERMS:
            self._refuse(f"too many parts: at most {MOST_TERMS} comparisons and words")

    def _word(self, begin: int) -> Word:
        self._words += 1
        if self._words > MOST_WORDS:
            self._refuse(f"too many words without a field: at most {MOST_WORDS}", begin)
        quoted = self._skip(_QUOTED)
        if quoted is not None:
            return Word(self._literal(quoted, begin))
        self._check_quote()
        if self._skip(_FREE) is None:
            character = f", not {self._text[begin]!r}" if begin < len(self._text) else ""
            self._refuse(f"expected a comparison as driver=redfish, or a word{character}", begin)
        return Word(self._pattern(self._text[begin : self._place], begin))

    def _comparison(self, name: str, begin: int) -> Tree | None:
        """Parse what follows the name of a field; None if it is no comparison."""
        field, _, path = name.partition(".")
        type_ = self._type_of(name)
        at_sign = self._place
        if type_ is not None and (match := self._skip(_LIST)):
            return _negated(bool(match.group(1)), self._listed(name, type_))
        if type_ is not None and type_.kind == Kind.TIME:
            for word, operator in TIME_WORDS.items():
                if self._keyword(word):
                    self._skip(_BLANK)
                    return Comparison(name, operator, (self._value(name, type_, operator),))
        match = self._skip(_SYMBOL)
        if match is None:
            return None
        if type_ is None:
            self._refuse(self._unknown(name), begin)
        sign = match.group()
        operator = Operator.EQUAL if sign in ("!=", "==") else Operator(sign)
        if operator not in OPERATORS[type_.kind]:
            right = ", ".join(_signs(type_.kind))
            self._refuse(f"{name} is compared by {right}, not by {sign}", at_sign)
        self._skip(_BLANK)
        values = [self._value(name, type_, operator)]
        while operator == Operator.EQUAL and self._text[self._place : self._place + 1] == ",":
            self._place += 1
            values.append(self._further_value(name, type_))
        keys = tuple(path.split(".")) if path else ()
        return _negated(sign == "!=", Comparison(field, operator, tuple(values), keys))

    def _listed(self, name: str, type_: FieldType) -> Comparison:
        """Parse the values after `in (`."""
        if Operator.EQUAL not in OPERATORS[type_.kind]:
            self._refuse(f"{name} is compared by {', '.join(_signs(type_.kind))}, not by in")
        self._skip(_BLANK)
        values = [self._value(name, type_, Operator.EQUAL)]
        while (sign := self._next()) == ",":
            self._place += 1
            values.append(self._further_value(name, type_))
        if sign != ")":
            self._refuse("expected ',' or ')' in a list of values")
        self._place += 1
        field, _, path = name.partition(".")
        keys = tuple(path.split(".")) if path else ()
        return Comparison(field, Operator.EQUAL, tuple(values), keys)

    def _further_value(self, name: str, type_: FieldType) -> Value:
        """Parse a value of a list after the first one."""
        self._skip(_BLANK)
        begin = self._place
        value = self._value(name, type_, Operator.EQUAL)
        if not (type_.together and isinstance(value, str)):
            end, self._place = self._place, begin
            self._count()
            self._place = end
        return value

    def _check_quote(self) -> None:
        """Refuse a quote at the place: a quoted text would have been passed over."""
        if self._text[self._place : self._place + 1] in ("'", '"'):
            self._refuse("this quote is not closed")

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name[:100], self._names, 1)
        return f"there is no field {name!r}" + (f"; the nearest is {near[0]!r}" if near else "")

    def _value(self, name: str, type_: FieldType, operator: Operator) -> Value:
        begin = self._place
        if type_.kind == Kind.CHOICE and (choice := self._choice(type_.choices)):
            return choice
        quoted = self._skip(_QUOTED)
        if quoted is None:
            self._check_quote()
            if self._skip(_BARE) is None:
                self._refuse(f"a value of {name} is missing")
        text = self._text[begin : self._place]
        if type_.kind == Kind.FLAG:
            if text.lower() not in TRUTHS:
                self._refuse(f"{name} is true or false, not {text!r}", begin)
            return TRUTHS[text.lower()]
        if type_.kind == Kind.TIME:
            return self._time(name, self._literal(quoted, begin) if quoted else text, begin)
        if operator in ORDERED:
            if not is_number(text):
                self._refuse(f"{operator} compares numbers, and {text!r} is none", begin)
            return float(text)
        value = self._text_value(quoted, operator, begin)
        if type_.kind == Kind.CHOICE and operator == Operator.EQUAL:
            self._check_choice(name, type_.choices, value, begin)
        return value

    def _text_value(
        self, quoted: re.Match[str] | None, operator: Operator, begin: int
    ) -> str | Pattern:
        """Return the value of a text that was passed over; wildcards count where it is bare."""
        if quoted is not None:
            return self._literal(quoted, begin)
        text = self._text[begin : self._place]
        return (
            self._pattern(text, begin) if operator == Operator.EQUAL else self._short(text, begin)
        )

    def _check_choice(
        self, name: str, choices: Sequence[str], value: str | Pattern, begin: int
    ) -> None:
        """Refuse a text that is no choice."""
        if isinstance(value, str) and value not in choices:
            near = get_close_matches(value, choices, 1)
            hint = f"; the nearest is {near[0]!r}" if near else ""
            every = ", ".join(choices)
            self._refuse(f"{value!r} is no value of {name}{hint}; there are {every}", begin)

    def _choice(self, choices: Sequence[str]) -> str | None:
        """Pass over the longest choice at the place, which may have blanks, and return it."""
        for choice in sorted(choices, key=len, reverse=True):
            end = self._place + len(choice)
            following = self._text[end : end + 1]
            if self._text.startswith(choice, self._place) and not _BARE.match(following):
                self._place = end
                return choice
        return None

    def _time(self, name: str, text: str, begin: int) -> datetime | timedelta:
        if span := _SPAN.fullmatch(text):
            time_span = timedelta(**{_UNITS[span.group(2)]: int(span.group(1))})
            if time_span > LONGEST_SPAN:
                self._refuse(f"{name}: at most {LONGEST_SPAN.days} days before now", begin)
            return time_span
        try:
            time = datetime.fromisoformat(text)
            return (time if time.tzinfo is None else time.astimezone(UTC)).replace(tzinfo=None)
        except (ValueError, OverflowError):
            self._refuse(
                f"{name}: {text!r} is neither a time span before now, as 8h or 2d, nor a time, as"
                " 2026-11-26 or 2026-11-26T08:00:00Z",
                begin,
            )

    def _literal(self, quoted: re.Match[str], begin: int) -> str:
        text = quoted.group(1) if quoted.group(1) is not None else quoted.group(2)
        return self._short(re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL), begin)

    def _pattern(self, text: str, begin: int) -> str | Pattern:
        parts = re.split(r"\*+", self._short(text, begin))
        if len(parts) > MOST_WILDCARDS + 1:
            self._refuse(f"too many wildcards: at most {MOST_WILDCARDS} in a value", begin)
        return text if len(parts) == 1 else Pattern(tuple(parts))

    def _short(self, text: str, begin: int) -> str:
        if len(text) > LONGEST_VALUE:
            self._refuse(f"the value is too long: at most {LONGEST_VALUE} characters", begin)
        return text


def _negated(negative: bool, tree: Tree) -> Tree:
    return Not(tree) if negative else tree


def _signs(kind: Kind) -> list[str]:
    """Return the operators of a kind, as people write them."""
    signs = [str(operator) for operator in OPERATORS[kind]]
    if Operator.EQUAL in OPERATORS[kind]:
        signs[1:1] = ["!=", "in"]
    return signs + (list(TIME_WORDS) if kind == Kind.TIME else [])


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None
