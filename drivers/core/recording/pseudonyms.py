"""
Pseudonyms: consistent replacements of identifying values in a recording.

Equal values get equal replacements of the same form, in documents, paths and headers, so that links
keep working.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from random import Random, SystemRandom
from typing import NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from drivers.core.recording.bundle import OWN_HOST, Answer, Exchange, Recording
from drivers.core.recording.identifying import in_document, in_text, is_ip

#: Shorter values are replaced in their own property only: they occur in other texts by chance.
SHORTEST = 4
_DIGITS, _UPPER, _LOWER = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
#: A value ends where its letters and digits end; it may follow an escape of JSON.
_BEGIN, _END = r"(?:(?<![0-9A-Za-z])|(?<=\\[nrt]))", r"(?![0-9A-Za-z])"
#: Kinds whose replacements are words with a number.
_WORDS = {
    "tag": "tag-{}", "user": "user-{}", "place": "place-{}", "secret": "secret-{}",
    "other": "other-{}", "email": "person-{}@example.com",
}  # fmt: skip


class Replacement(NamedTuple):
    """A line of the list for review."""

    kind: str
    original: str
    replacement: str
    places: int  # number of them


@dataclass(slots=True)
class Pseudonyms:
    """Replacements of one recording."""

    random: Random = field(default_factory=SystemRandom)
    _new: dict[str, tuple[str, str]] = field(default_factory=dict)  # original -> kind, replacement
    _properties: dict[str, set[str]] = field(default_factory=dict)  # original -> its properties
    _narrow: set[str] = field(default_factory=set)  # replaced in their own properties only
    _places: Counter[str] = field(default_factory=Counter)  # by original
    _numbers: Counter[str] = field(default_factory=Counter)  # of replacements, by kind

    def applied(self, recording: Recording, known_values: Mapping[str, str]) -> Recording:
        """
        Return a recording with all replacements.

        known_values: further values -> their kinds; `bmc` is the URL of the BMC.
        """
        answers = [*recording.answers, *(exchange.answer for exchange in recording.exchanges)]
        documents = [answer.document() for answer in answers]
        for value, kind in known_values.items():
            if kind == "bmc":
                self._add_bmc(value)
            else:
                self._add(kind, value)
        orders = [_parsed(exchange.request_body) for exchange in recording.exchanges]
        identifying = [
            *(finding for answer in answers for finding in in_text(answer.path)),
            *(finding for document in (*documents, *orders) for finding in in_document(document)),
        ]
        for kind, value, name in identifying:
            self._add(kind, value)
            if name:
                self._properties.setdefault(value, set()).add(name)
        names = {name for document in (*documents, *orders) for name in _names(document)}
        self._narrow = {
            value for value in self._properties if len(value) < SHORTEST or value in names
        }
        everywhere = self._everywhere()
        return Recording(
            [self._answer(answer, everywhere) for answer in recording.answers],
            recording.system and everywhere(recording.system),
            [everywhere(path) for path in recording.unread],
            [self._exchange(exchange, everywhere) for exchange in recording.exchanges],
        )

    def review(self) -> Sequence[Replacement]:
        """Return the replacements that have taken place, by kind."""
        return sorted(
            Replacement(kind, original, replacement, self._places[original])
            for original, (kind, replacement) in self._new.items()
            if self._places[original]
        )

    def _add_bmc(self, url: str) -> None:
        """Replace the BMC in absolute URLs by OWN_HOST, with any port."""
        url_parts = urlsplit(url)
        host = url_parts.hostname or ""
        host_text = f"[{host}]" if ":" in host else host
        for netloc in {url_parts.netloc, host_text, f"{host_text}:443", f"{host_text}:80"}:
            for scheme in ("http", "https"):
                self._new[f"{scheme}://{netloc}"] = ("bmc", f"{scheme}://{OWN_HOST}")
        self._add("ip" if is_ip(host) else "host", host)

    def _add(self, kind: str, value: str) -> None:
        if value in self._new:
            return
        replacement = self._made(kind, value)
        if replacement is None:
            return
        self._new[value] = (kind, replacement)
        for writing, new_text in zip(
            _writings(kind, value), _writings(kind, replacement), strict=True
        ):
            self._new.setdefault(writing, (kind, new_text))

    def _made(self, kind: str, value: str) -> str | None:
        """Make the replacement of a value, or return None if the value stays."""
        match kind:
            case "mac":
                return self._mac(value)
            case "ip":
                return self._ip(value)
            case "host":
                if is_ip(value):
                    return self._ip(value)
                name = f"host-{self._number(kind)}"
                return f"{name}.example" if "." in value else name
            case "uuid" if not value.strip("0-"):
                return None
            case "uuid":
                new_value = str(UUID(int=self.random.getrandbits(128), version=4))
                return new_value.upper() if value.isupper() else new_value
            case "serial":
                return self._scrambled(value, (_DIGITS, _UPPER, _LOWER))
            case "wwn":
                return self._scrambled(value, (_DIGITS, _UPPER[:6], _LOWER[:6]))
        return _WORDS[kind].format(self._number(kind))

    def _number(self, kind: str) -> int:
        self._numbers[kind] += 1
        return self._numbers[kind]

    def _mac(self, value: str) -> str | None:
        octets = bytes.fromhex(re.sub("[:-]", "", value))
        if octets[0] & 1 or not any(octets):
            return None  # it names no card
        text = (0x02 << 40 | self.random.getrandbits(40)).to_bytes(6, "big").hex(value[2])
        return text.upper() if value.isupper() else text

    def _ip(self, value: str) -> str | None:
        try:
            address = ip_address(value)
        except ValueError:
            return None
        special = address.is_loopback or address.is_multicast or address.is_unspecified
        if special or value.startswith("255."):
            return None
        number = self._number("ip")
        if address.version == 6:
            return f"2001:db8::{number:x}"
        return str(ip_address("198.18.0.0") + number)

    def _scrambled(self, value: str, alphabets: Sequence[str]) -> str:
        """Replace each character of an alphabet by a random one of that alphabet."""
        used_replacements = {replacement for _, replacement in self._new.values()}
        while True:
            new_value = "".join(
                next(
                    (
                        self.random.choice(alphabet)
                        for alphabet in alphabets
                        if character in alphabet
                    ),
                    character,
                )
                for character in value
            )
            # a short value may have no other form
            if new_value != value and (new_value not in used_replacements or len(value) < SHORTEST):
                return new_value
            if not any(character in alphabet for character in value for alphabet in alphabets):
                return f"serial-{self._number('serial')}"

    def _everywhere(self) -> Callable[[str], str]:
        """Return the function that replaces the values in a text."""
        forms = {
            form: value
            for value in self._new
            if value not in self._narrow
            for form in _forms(value)
        }
        if not forms:
            return lambda text: text
        longest_first = sorted(forms, key=len, reverse=True)
        pattern = re.compile(f"{_BEGIN}({'|'.join(map(re.escape, longest_first))}){_END}")

        def substitute(match: re.Match[str]) -> str:
            original = forms[match[1]]
            self._places[original] += 1
            replacement = self._new[original][1]
            return replacement.replace("/", r"\/") if r"\/" in match[1] else replacement

        return lambda text: pattern.sub(substitute, text)

    def _in_properties(self, text: str) -> str:
        """Replace the narrow values."""
        for value in self._narrow:
            names = "|".join(map(re.escape, self._properties[value]))
            form = re.escape(json.dumps(value)[1:-1])
            pattern = rf'("(?:{names})"\s*:\s*"?){form}(?=["\s,}}])'
            replacement = self._new[value][1] if value in self._new else value
            text, count = re.subn(pattern, rf"\g<1>{replacement}", text)
            self._places[value] += count
        return text

    def _answer(self, answer: Answer, everywhere: Callable[[str], str]) -> Answer:
        return replace(
            answer,
            path=everywhere(answer.path),
            headers={name: everywhere(value) for name, value in answer.headers.items()},
            body=everywhere(self._in_properties(answer.body)),
        )

    def _exchange(self, exchange: Exchange, everywhere: Callable[[str], str]) -> Exchange:
        request_body = exchange.request_body and everywhere(
            self._in_properties(exchange.request_body)
        )
        return replace(
            exchange, request_body=request_body, answer=self._answer(exchange.answer, everywhere)
        )


def _parsed(text: str | None) -> object:
    """Return a document of JSON; None: it is none."""
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return None


def _writings(kind: str, value: str) -> list[str]:
    """Return the writings of a value that occur in names and paths, in one order."""
    if kind == "uuid":
        texts = [value, value.replace("-", "")]
    elif kind == "mac":
        texts = [re.sub("[:-]", separator, value) for separator in (":", "-", "")]
    else:
        return []
    return [case(text) for text in texts for case in (str.lower, str.upper)]


def _names(document: object) -> Iterator[str]:
    """Yield the names of all properties."""
    if isinstance(document, dict):
        for name, item in document.items():
            yield name
            yield from _names(item)
    elif isinstance(document, list):
        for item in document:
            yield from _names(item)


def _forms(value: str) -> Iterator[str]:
    """Yield the writings of a value in JSON."""
    for text in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield text
        yield text.replace("/", r"\/")
