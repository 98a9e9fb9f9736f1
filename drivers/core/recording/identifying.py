"""Values of a recording that identify a machine or its owner, by property name or by form."""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from drivers.core.recording.bundle import OWN_HOST

#: Kind -> names of its properties.
NAMES = {
    "serial": r".*serial(number)?|.*servicetag|.*servicecode|sku|nodeid|.*licensekey|entitlementid",
    "tag": r".*assettag",
    "host": r"hostname|fqdn|.*dnsname|domain(name)?|systemname|.*server(host)?name",
    "secret": r".*password|.*passphrase|.*token|.*community.*|.*secret|privatekey|authorization"
    r"|certificatestring|.*apikey",
    "user": r".*user(name)?",
    "wwn": r".*ww[pn]?n|durablename|.*guid",
    "place": r"latitude|longitude|street|city|postalcode|building|(room|rack|row)(name)?"
    r"|contact(name)?|phonenumber",
}
_NAMES = {kind: re.compile(pattern, re.IGNORECASE) for kind, pattern in NAMES.items()}
_HEX = "[0-9A-Fa-f]{2}"
#: Form -> its kind, in every text.
_FORMS = (
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", re.DOTALL), "secret"),
    (re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"), "email"),
    (re.compile(r"\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b"), "uuid"),
    (re.compile(rf"(?<![\w:-]){_HEX}([:-])(?:{_HEX}\1){{4}}{_HEX}(?![\w:-])"), "mac"),
    (re.compile(rf"(?<![\w:-]){_HEX}([:-])(?:{_HEX}\1){{6}}{_HEX}(?![\w:-])"), "wwn"),
)  # fmt: skip
#: Form -> its kind, except in versions: 1.2.3.4 is a version there.
_ADDRESSES = (
    (re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)"), "ip"),
    (re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])"), "ip"),
)
_URL = re.compile(r"https?://[^\s\"'<>/\\?#]+")
#: Hosts of public schemas.
_PUBLIC = re.compile(rf"(.*\.)?(dmtf|odata|oasis-open|snia)\.org|{re.escape(OWN_HOST)}")
#: Values that identify nothing.
_EMPTY = re.compile(
    r"[\s0.:-]*|none|null|n/?a|unknown|not (specified|available|applicable)|default string"
    r"|to be filled by o\.?e\.?m\.?|(system |chassis )?serial ?number|asset ?tag|string|localhost",
    re.IGNORECASE,
)


def in_document(value: object, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield kind, value and property of each identifying value; property "": found by its form."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from in_document(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from in_document(item, name)
    elif isinstance(value, str):
        yield from _by_name(value, name)
        yield from in_text(value, versions="version" in name.lower())
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from _by_name(str(value), name)


def in_text(text: str, *, versions: bool = False) -> Iterator[tuple[str, str, str]]:
    """Yield what is found by its form. versions: numbers with dots are no addresses."""
    for pattern, kind in (*_FORMS, *(() if versions else _ADDRESSES)):
        for match in pattern.finditer(text):
            yield kind, match[0], ""
    for match in _URL.finditer(text):
        host = host_of(match[0])
        if host and not is_ip(host) and not _PUBLIC.fullmatch(host):
            yield "host", host, ""


def _by_name(value: str, name: str) -> Iterator[tuple[str, str, str]]:
    for kind, pattern in _NAMES.items():
        if pattern.fullmatch(name) and not _EMPTY.fullmatch(value):
            if kind != "wwn" or re.search(r"(?:[0-9A-Fa-f]{2}[:-]?){6}", value):
                yield kind, value, name
            return


def host_of(url: str) -> str | None:
    """Return the host of a URL; None if it is malformed."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def is_ip(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
