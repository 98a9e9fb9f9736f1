"""
Types of options, and checks of their values.

A check raises ValueError with the reason; the error that a user sees starts with the option's name.
"""

import ipaddress
import re
import shlex
from typing import Any
from urllib.parse import urlsplit

from app.config import hosts, redis_url
from app.config.options import option
from drivers.net import networks

#: Characters of a URL: others are percent-encoded, or in Punycode (RFC 3986).
_URL = re.compile(r"[!#-;=?-\[\]_a-{}~]+")
#: Accepted schemes of database URLs; the driver is not configurable.
DATABASES = ("sqlite", "sqlite+pysqlite", "postgresql", "postgres", "postgresql+psycopg")


def delay(text: str) -> None:
    """Check "a" or "a,b" seconds, fractions allowed, 0 <= a <= b."""
    number = r"\s*(\d+(?:\.\d*)?|\.\d+)\s*"
    match = re.fullmatch(rf"{number}(?:,{number})?", text)
    if not match or float(match[1]) > float(match[2] or match[1]):
        raise ValueError(f"{text!r} is not a delay: 'a' or 'a,b' seconds with a <= b")


def database_url(url: str) -> None:
    scheme, colon, address = url.partition("://")
    if url and (not colon or scheme not in DATABASES):
        label = f"{scheme}://" if colon and re.fullmatch("[a-z][a-z0-9+]*", scheme) else "it"
        raise ValueError(
            f"{label} is not a supported database:"
            " expected SQLite (sqlite:///FILE) or PostgreSQL"
            " (postgresql://USER:PASSWORD@HOST/NAME)"
        )
    if (
        not scheme.startswith("sqlite") and address.count("@") > 1
    ):  # a part of the password is a host
        raise ValueError("@ in a user, a password or an option is written as %40")
    authority = re.split("[/?]", address, maxsplit=1)[0].rpartition("@")[2]
    if scheme.startswith("sqlite"):
        if authority:
            raise ValueError("expected three slashes before the file: sqlite:///FILE")
        return
    # without a host, libpq uses a socket, or the host of an option
    if authority and not all(map(hosts.is_place, authority.split(","))):
        raise ValueError(
            "the name of a host or its port is wrong: expected postgresql://USER:PASSWORD@HOST/NAME"
            " or HOST:PORT; @ : / ? # in a password are percent-encoded"
        )


def key_prefix(prefix: str) -> None:
    if not re.fullmatch(r"[\w-]{1,64}", prefix, re.ASCII):
        raise ValueError("expected 1 to 64 letters, digits, - and _")


def launcher(text: str) -> None:
    """Check a command that starts a VNC server at `{port}`; empty: there is none."""
    if text and "{port}" not in " ".join(shlex.split(text)):
        raise ValueError("it has no {port}, at which the VNC server must listen")


def ports_of(text: str) -> range:
    """
    Return the ports of a range such as 10000:20000, which includes its last one; empty: port 0.

    Raises ValueError.
    """
    if not text:
        return range(1)
    match = re.fullmatch(r"(\d{1,5}):(\d{1,5})", text, re.ASCII)
    if not match or not 1024 <= int(match[1]) <= int(match[2]) <= 65535:
        raise ValueError(f"{text!r} is not a range of ports from 1024 to 65535, as 10000:20000")
    return range(int(match[1]), int(match[2]) + 1)


def optional_address(text: str) -> None:
    """Check an IPv4 address, or none."""
    if text:
        addresses((text,))


def addresses(texts: tuple[str, ...]) -> None:
    for text in texts:
        try:
            ipaddress.IPv4Address(text)
        except ValueError:
            raise ValueError(f"{text!r} is not an IPv4 address, as 192.0.2.1") from None


def address_ranges(texts: tuple[str, ...]) -> None:
    """Check ranges of addresses: FIRST-LAST, FIRST-LAST/PREFIX, or NETWORK/PREFIX."""
    for text in texts:
        bounds, slash, prefix = text.partition("/")
        low, dash, high = bounds.partition("-")
        try:
            network = ipaddress.IPv4Network((low, int(prefix)), not dash) if slash else None
            is_range = bool(dash) and ipaddress.IPv4Address(low) <= ipaddress.IPv4Address(high)
            if dash and network and ipaddress.IPv4Address(high) not in network:
                is_range = False
        except ValueError:
            network, is_range = None, False
        if not (is_range if dash else network):
            raise ValueError(
                f"{text!r} is not a range of addresses: expected 192.0.2.100-192.0.2.200, this with"
                " /24, or 192.0.2.0/24 for fixed addresses alone"
            )


def redis_address(url: str) -> None:
    if url:
        redis_url.parse(url)


def messages_url(url: str) -> None:
    if not url:
        return
    if not url.startswith(("amqp://", "amqps://")):
        raise ValueError(
            "expected amqp://USER:PASSWORD@HOST:PORT/VIRTUAL_HOST, or amqps:// for TLS"
        )
    login, _, place = url.partition("://")[2].rpartition("@")
    place = re.split("[/?#]", place, maxsplit=1)[0]
    if re.search(r"[@/?#\[\]]", login) or not hosts.is_place(place):
        raise ValueError(
            "expected amqp://USER:PASSWORD@HOST:PORT/VIRTUAL_HOST, where the host is a name or an"
            " address; @ / ? # [ ] in a user or password are written as %40 %2F %3F %23 %5B %5D"
        )


def transport_urls(url: str) -> list[str]:
    """
    Return the URLs of the hosts in a transport URL of oslo.messaging, each as amqp:// or amqps://.

    Raises ValueError.
    """
    match = re.fullmatch(r"(rabbit|amqp|amqps)://([^/?#]+)(/[^?#@]*)?", url)
    places = match[2].split(",") if match else []
    # all or none have a login: else a part of a password with a comma is a host
    has_login = {"@" in place for place in places}
    is_sound = all(
        place.count("@") < 2 and hosts.is_place(place.rpartition("@")[2]) for place in places
    )
    if match is None or len(has_login) > 1 or not is_sound:
        raise ValueError(
            "expected rabbit://, amqp:// or, for TLS, amqps://, then USER:PASSWORD@HOST:PORT, more"
            " of these after commas, and /VIRTUAL_HOST, without a query; , @ : / ? # in a password"
            " are percent-encoded"
        )
    scheme = "amqp" if match[1] == "rabbit" else match[1]
    return [f"{scheme}://{place}{match[3] or ''}" for place in places]


def transport_url(url: str) -> None:
    if url:
        transport_urls(url)


def exchange(name: str) -> None:
    if not 1 <= len(name.encode()) <= 255:
        raise ValueError(f"{name!r} is not the name of an exchange: expected 1 to 255 bytes")


def topics(names: tuple[str, ...]) -> None:
    for name in names:
        if not 1 <= len(name.encode()) <= 240:
            raise ValueError(f"{name!r} is not a topic: expected 1 to 240 bytes")
    if not names:
        raise ValueError("expected at least one topic")


def collector_url(url: str) -> None:
    if url and not _is_web_url(url):
        raise ValueError("expected a URL such as http://127.0.0.1:4318/v1/traces")
    parts = urlsplit(url)
    if url and (parts.username is not None or parts.query or parts.fragment):
        raise ValueError(
            "expected a URL without credentials and query;"
            " OTEL_EXPORTER_OTLP_HEADERS may have credentials"
        )


def web_url(url: str | None) -> None:
    if url and not _is_web_url(url):
        raise ValueError("expected a URL such as https://HOST or http://HOST:PORT/PATH")


def base_url(url: str | None) -> None:
    """Check a URL to which the service appends paths."""
    web_url(url)
    if url and re.search("[?#@]", url):
        raise ValueError("expected a URL without credentials, query and fragment")


def image_url(url: str | None) -> None:
    if url and not (_is_web_url(url) or re.fullmatch(r"file:///[^/].*", url, re.IGNORECASE)):
        raise ValueError("expected a URL such as https://HOST/PATH or file:///PATH")


def image_urls(urls: dict[str, str]) -> None:
    for url in urls.values():
        image_url(url)


def _is_web_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_sound = hosts.is_host(parts.hostname or "") and bool(_URL.fullmatch(url))
        return parts.scheme in ("http", "https") and is_sound and parts.port != 0
    except ValueError:  # the port, or an IPv6 address
        return False


def provider_url(url: str) -> None:
    web_url(url)
    parts = urlsplit(url)
    local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if url and (not (local or parts.scheme == "https") or not parts.hostname):
        raise ValueError("expected an https URL, or an http URL on loopback")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("expected a URL without a query, a fragment and credentials")


def kill_points(points: tuple[str, ...]) -> None:
    for point in points:
        if not re.fullmatch(r"[\w.:-]+=[\w.:/-]+", point):
            raise ValueError(f"{point!r} is not of the form name=action")


def must_be_false(value: bool) -> None:
    if value:
        raise ValueError("must be false: Ingot has no object store")


def cipher_suites(numbers: tuple[str, ...]) -> None:
    for number in numbers:
        if not re.fullmatch(r"\d{1,3}", number, re.ASCII) or int(number) > 255:
            raise ValueError(f"{number!r} is not a cipher suite: a number from 0 to 255")


def cidr_map(pairs: tuple[str, ...]) -> None:
    for pair in pairs:
        cidr, _, name = pair.rpartition(":")
        if not (cidr and name):
            raise ValueError(f"{pair!r} is not of the form CIDR:physical network")
        networks.parse((cidr,))


def seconds(default: float, help: str, **constraints: object) -> Any:  # noqa: A002 - as `option`
    return option(default, help, **{"minimum": 0, **constraints})


def count(default: int, help: str, **constraints: object) -> Any:  # noqa: A002 - as `option`
    return option(default, help, **{"minimum": 0, **constraints})


def enabled(kind: str, but: str = "") -> Any:
    return option(None, f"{kind} interfaces that nodes may use; empty: all that are installed{but}")


def preferred(kind: str) -> Any:
    return option(None, f"{kind} interface of nodes without one, if their driver has it")


def fake_delay(kind: str) -> Any:
    template = "Duration of fake {} work in seconds: 'a', or 'a,b' for a random time"
    return option("0", template.format(kind), check=delay)
