"""
URLs of databases, in the forms that libpq has, as URLs of SQLAlchemy.
"""

import re
from urllib.parse import urlsplit

from sqlalchemy import URL, make_url

#: libpq's names of the scheme.
_SCHEME = re.compile(r"(postgresql|postgres)://")
#: Text of errors about a malformed URL.
_MALFORMED = (
    "not a database URL: expected sqlite:///FILE or postgresql://USER:PASSWORD@HOST:PORT/NAME;"
    " characters such as @ : / ? # in a user or password are percent-encoded"
)
#: User and password, hosts, and the remainder of a URL with more than one host.
_HOSTS = re.compile(
    r"(?P<scheme>[\w+]+://)(?P<login>[^/?#@]*@)?(?P<hosts>[^/?#@]*,[^/?#@]*)(?P<end>.*)"
)


def engine_url(url: str) -> URL:
    """
    Return the URL of an engine.

    Raises ValueError: the URL is malformed. The text has no part of it.
    """
    try:
        return make_url(_SCHEME.sub("postgresql+psycopg://", _one_authority(url), count=1))
    except Exception:  # in several kinds, whose texts quote the URL with its password
        raise ValueError(_MALFORMED) from None


def _one_authority(url: str) -> str:
    """Move hosts a:5432,b:5433 into the query, where SQLAlchemy expects more than one."""
    match = _HOSTS.fullmatch(url)
    if match is None:
        return url
    places = [urlsplit(f"//{place}") for place in match["hosts"].split(",")]
    hosts = ",".join(place.hostname or "" for place in places)
    ports = ",".join(str(place.port or "") for place in places)
    path, _, query = match["end"].partition("?")
    options = f"host={hosts}&port={ports}{f'&{query}' if query else ''}"
    return f"{match['scheme']}{match['login'] or ''}{path or '/'}?{options}"
