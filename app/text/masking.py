"""
Secrets in documents and texts: which values they are, and their masking.

A value is secret by the name of its key. In any other text, credentials in URLs are secret: the
password before a host name, values of the query such as signatures, and the fragment.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

HIDDEN = "******"
WORDS = (
    "password", "passphrase", "secret", "token", "admin_pass", "adminpass", "new_pass",
    "sys_pswd", "private_key", "sslkey", "encrypted_key", "fernetkey", "configdrive",
    "chapsecret", "kg_key",
)  # fmt: skip
#: Document of a node -> further keys that are secret in it.
ALSO: Mapping[str, frozenset[str]] = {
    "driver_info": frozenset({"snmp_auth_key", "snmp_priv_key"}),
    "instance_info": frozenset({"image_url"}),
}
#: Further names of secret parameters in URLs, such as keys and signatures of object stores: parts
#: of a name, then whole words at its end.
_IN_QUERIES = ("signature", "credential", "accesskey", "apikey", "authorization", "passwd")
_WORDS_IN_QUERIES = ("sig", "key", "auth", "pass", "pwd")

_NONE: frozenset[str] = frozenset()
_ALL = _NONE.union(*ALSO.values())
_SECRET = re.compile("|".join(WORDS))
_URL = re.compile(
    r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]*://)(?P<place>[^\s/?#\"'<>]*)(?P<path>[^\s?#\"'<>]*)"
    r"(?P<query>\?[^\s#\"'<>]*)?(?P<fragment>#[^\s\"'<>]*)?"
)
_PLACE = re.compile(r"[^:]*(:\d*)?|\[.*\](:\d*)?")
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;]+)=([^&;]+)")
_IN_QUERY = re.compile(
    "|".join((*WORDS, *_IN_QUERIES, f"(?:^|[^a-z])(?:{'|'.join(_WORDS_IN_QUERIES)})$"))
)


class Unreadable(str):
    """
    The text, as it is stored, of a secret that cannot be opened.

    It is written back as it is, so that a change of other fields loses nothing. Answers of the API
    show null; conductors refuse to use it.
    """

    __slots__ = ()


def mask(value: object, document: str = "") -> Any:
    """Return a copy with asterisks for each secret value. document: the node's field, if any."""
    return _mask(value, ALSO.get(document, _NONE))


def _mask(value: object, further_keys: frozenset[str]) -> object:
    if isinstance(value, str):
        return None if isinstance(value, Unreadable) else mask_urls(value)
    if isinstance(value, dict):
        return {
            key: HIDDEN if _is_secret(key, further_keys) else _mask(inner, further_keys)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_mask(inner, further_keys) for inner in value]
    return value


@lru_cache(maxsize=1000)  # a rack's documents have the same few keys
def secret_keys(keys: tuple[str, ...], document: str = "") -> tuple[str, ...]:
    """Return the keys whose values are secret."""
    further_keys = ALSO.get(document, _NONE)
    return tuple(key for key in keys if _is_secret(key, further_keys))


@lru_cache(maxsize=10_000)
def _is_secret(key: str, further_keys: frozenset[str]) -> bool:
    lower = key.lower()
    return lower in further_keys or bool(_SECRET.search(lower))


def is_secret(key: str) -> bool:
    """Whether the value of a key is secret in any document."""
    return _is_secret(key, _ALL)


def may_have_credentials(text: str) -> bool:
    """Whether a text, or a document as JSON text, may have a URL with credentials."""
    return "://" in text and ("@" in text or "?" in text or "#" in text)


def mask_urls(text: str) -> str:
    """Mask the credentials in the URLs of a text."""
    return _URL.sub(_mask_url, text) if may_have_credentials(text) else text


def _mask_url(url: re.Match[str]) -> str:
    scheme, place, path, query = url["scheme"], url["place"], url["path"], url["query"] or ""
    fragment = url["fragment"] or ""
    user, at, host = place.rpartition("@")
    if at:
        place = f"{_mask_login(user)}@{host}"
    elif "@" in path + query + fragment and not _PLACE.fullmatch(place):  # a password with / or ?
        return scheme + HIDDEN
    # no server receives a fragment: it is for scripts, and may have a token
    hidden = f"#{HIDDEN}" if len(fragment) > 1 else fragment
    return scheme + place + path + _PARAMETER.sub(_mask_parameter, query) + hidden


def _mask_login(login: str) -> str:
    """Mask the password of a login; without a password the user may be a token."""
    user, colon, _ = login.partition(":")
    return f"{user}:{HIDDEN}" if colon else HIDDEN


def _mask_parameter(parameter: re.Match[str]) -> str:
    name = parameter[1]
    return f"{name}={HIDDEN}" if _IN_QUERY.search(name.lower()) else parameter[0]


#: Shorter texts are parts of too many words.
SHORTEST_TEXT = 4


def texts_in(driver_info: Mapping[str, object]) -> list[str]:
    """Return the values of a node's `driver_info` as errors may quote them, the longest first."""
    texts = {*addresses_in(driver_info)}
    for text in map(str, _scalars(driver_info)):
        place = text.partition("://")[2].rpartition("@")[2].partition("?")[0]
        forms = (text, repr(text)[1:-1], place)
        texts |= {form for form in forms if len(form) >= SHORTEST_TEXT}
    return sorted(texts, key=len, reverse=True)


def _scalars(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _scalars(item)
    elif not isinstance(value, bool | None):
        yield value


def addresses_in(driver_info: Mapping[str, object]) -> list[str]:
    """Return the addresses of a node's BMC as errors may name them, the longest first."""
    names = set()
    for key, value in driver_info.items():
        if key.endswith("_address") and isinstance(value, str) and value:
            place = (value.partition("://")[2] or value).rstrip("/")
            server = place.partition("/")[0]
            host = re.sub(r":\d+$", "", server).strip("[]")
            names |= {value.rstrip("/"), place, server, host}
    names |= {text.lower() for text in names}  # as a driver normalises a host
    return sorted(names - {""}, key=len, reverse=True)
