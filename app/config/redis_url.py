"""
URL of the Redis that carries messages, leases and calls: one parse for both of its clients.

redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]
rediss://...  with TLS; options ssl_cert_reqs, ssl_ca_certs, ssl_certfile, ssl_keyfile
redis+socket://[USER:PASSWORD@]/PATH[?db=DATABASE]
sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/MASTER[/DATABASE]
           options sentinel_username, sentinel_password: login of the Sentinels

The texts of errors contain no part of a URL, since any part may be a piece of a password with
unescaped characters.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from app.config import hosts

FORMS = {
    "redis": "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]",
    "rediss": "rediss://[USER:PASSWORD@]HOST[:PORT][/DATABASE]",
    "redis+socket": "redis+socket://[USER:PASSWORD@]/PATH[?db=DATABASE]",
    "sentinel": "sentinel://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]/MASTER[/DATABASE]",
}
#: Other names of the schemes, as redis-py and other services write them.
_SCHEMES = {"unix": "redis+socket", "redis+sentinel": "sentinel"}
_TLS = ("ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_LOGIN = ("username", "password")
#: Options of the query by scheme; `virtual_host` is Celery's name of `db`.
_OPTIONS = {
    "redis": ("db", "virtual_host", *_LOGIN),
    "rediss": ("db", "virtual_host", *_LOGIN, *_TLS),
    "redis+socket": ("db", "virtual_host", *_LOGIN),
    "sentinel": ("db", *_LOGIN, "sentinel_username", "sentinel_password"),
}
_VERIFY = {
    "required": "required", "CERT_REQUIRED": "required", "optional": "optional",
    "CERT_OPTIONAL": "optional", "none": "none", "CERT_NONE": "none",
}  # fmt: skip
_PORTS = {"redis": 6379, "rediss": 6379, "sentinel": 26379}
_HOST = re.compile(
    r"\[(?P<ipv6>[0-9A-Fa-f:.%]+)\](:(?P<port6>\d{1,5}))?|(?P<host>[^:\[\]]+)(:(?P<port>\d{1,5}))?"
)


@dataclass(frozen=True, slots=True)
class RedisUrl:
    scheme: str  # of `FORMS`
    hosts: tuple[tuple[str, int], ...] = ()  # of Redis, or of the Sentinels; empty for a socket
    path: str = ""  # of the socket
    master: str = ""  # name of the monitored Redis, of the scheme sentinel only
    db: int = 0
    username: str | None = None
    password: str | None = None
    tls: Mapping[str, str] = field(default_factory=dict)  # ssl_* options; empty without TLS
    sentinel_login: Mapping[str, str] = field(default_factory=dict)  # username, password

    @property
    def for_kombu(self) -> str:
        """URL in the form that Kombu reads; for Sentinel, `sentinel_options` belong to it."""
        login = ""
        if self.username is not None or self.password is not None:
            login = f"{quote(self.username or '', '')}:{quote(self.password or '', '')}@"
        if self.scheme == "redis+socket":
            return f"redis+socket://{login}{quote(self.path)}?virtual_host={self.db}"
        names = [f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in self.hosts]
        if self.scheme == "sentinel":
            first_name, *other_names = names
            return ";".join(
                [
                    f"sentinel://{login}{first_name}/{self.db}",
                    *(f"sentinel://{name}" for name in other_names),
                ]
            )
        query = "&".join(f"{name}={quote(value, '')}" for name, value in self.tls.items())
        return f"{self.scheme}://{login}{names[0]}/{self.db}{f'?{query}' if query else ''}"

    def sentinel_options(self, seconds: float) -> dict[str, Any]:
        """
        Return the keyword arguments of redis-py for connections to the Sentinels.

        seconds: to connect, and for an answer; the Sentinels share them.
        """
        each_seconds = seconds / len(self.hosts)
        return {
            "socket_connect_timeout": each_seconds,
            "socket_timeout": each_seconds,
            # redis-py would try each Sentinel eleven times before it asks the next one
            "retry": None,
            **self.sentinel_login,
        }

    @property
    def login(self) -> dict[str, Any]:
        """Keyword arguments of redis-py: database, user and password."""
        return {"db": self.db, "username": self.username, "password": self.password}


def parse(url: str) -> RedisUrl:
    """
    Parse the URL of a Redis.

    Raises ValueError: names the accepted form.
    """
    scheme, colon, _ = url.partition("://")
    scheme = _SCHEMES.get(scheme, scheme)
    if not colon or scheme not in FORMS:
        raise ValueError(f"expected one of {', '.join(FORMS.values())}")
    try:
        return _parsed(scheme, url)
    except ValueError as error:
        # an error of urllib quotes a part of the URL
        detail = str(error) if isinstance(error, _Invalid) else "it is malformed"
        raise ValueError(f"{detail}; expected {FORMS[scheme]}") from None


class _Invalid(ValueError):
    """A part of the URL is wrong; the text says which, without its value."""


def _parsed(scheme: str, url: str) -> RedisUrl:
    if "#" in url:
        raise _Invalid("# in a password is written as %23")
    address, _, query = url.partition("://")[2].partition("?")
    # urllib refuses an IPv6 address after another host
    authority, slash, path = address.partition("/")
    options = _options(scheme, query)
    number = options.get("db", options.get("virtual_host", "0"))
    login, _, places = authority.rpartition("@")
    _check_encoded(login, path, query)
    username, _, password = login.partition(":")
    common: dict[str, Any] = {
        "username": unquote(username) or options.get("username"),
        "password": unquote(password) or options.get("password"),
    }
    if scheme == "redis+socket":
        if places or not path.strip("/"):
            raise _Invalid("the path of a socket begins with a third slash")
        return RedisUrl(scheme, path=unquote(slash + path), db=_database(number), **common)
    servers = tuple(_host(place, _PORTS[scheme]) for place in places.split(","))
    segments = path.strip("/").split("/")
    if scheme == "sentinel":
        master, *database = segments
        if not master:
            raise _Invalid("the name of the monitored Redis is missing")
        common["master"] = unquote(master)
        names = {"sentinel_username": "username", "sentinel_password": "password"}
        common["sentinel_login"] = {names[name]: options[name] for name in names if name in options}
    else:
        database = [segment for segment in segments if segment]
        if len(servers) > 1:
            raise _Invalid("more than one host needs Sentinel; Redis Cluster is not supported")
    if len(database) > 1:
        raise _Invalid("the path has too many parts")
    return RedisUrl(
        scheme,
        servers,
        db=_database((database or [number])[0]),
        tls=_tls(scheme, options),
        **common,
    )


def _check_encoded(login: str, path: str, query: str) -> None:
    """Check that no part of a password is taken for another part of the URL."""
    for part, words in (
        (login, "@ in a password is written as %40"),
        (path, "/ in a password is written as %2F"),
        (query, "? in a password is written as %3F, @ in an option as %40"),
    ):
        if "@" in part:
            raise _Invalid(words)


def _options(scheme: str, query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    if not set(options) <= set(_OPTIONS[scheme]):
        raise _Invalid(f"its options can be {', '.join(_OPTIONS[scheme])}")
    return options


def _host(place: str, port: int) -> tuple[str, int]:
    match = _HOST.fullmatch(place)
    number = int((match and (match["port"] or match["port6"])) or port)
    if not 0 < number < 1 << 16:
        raise _Invalid("a port is a number from 1 to 65535")
    if match is None or not hosts.is_place(place):
        raise _Invalid("the name of a host or its port is wrong")
    return match["host"] or match["ipv6"], number


def _database(number: str) -> int:
    if not re.fullmatch(r"\d{1,4}", number):
        raise _Invalid("DATABASE is a number, by default 0")
    return int(number)


def _tls(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of TLS; the server's certificate is verified unless they say otherwise."""
    if scheme != "rediss":
        return {}
    tls = {"ssl_cert_reqs": "required"} | {name: options[name] for name in _TLS if name in options}
    if tls["ssl_cert_reqs"] not in _VERIFY:
        raise _Invalid("ssl_cert_reqs is one of required, optional, none")
    return tls | {"ssl_cert_reqs": _VERIFY[tls["ssl_cert_reqs"]]}
