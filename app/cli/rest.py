"""The REST API as the command line asks it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import disable_warnings
from urllib3.exceptions import InsecureRequestWarning
from urllib3.util import Retry

from app.cli.commands import DEFAULT_URL
from app.cli.failures import Failure, Usage
from app.cli.output import Document

#: What this command line was written against; a service that is older says so.
HEADERS = {"X-OpenStack-Ironic-API-Version": "1.115", "User-Agent": "ingot"}
CONNECT, READ = 10.0, 60.0
#: Who follows an operation outlives a restart of the API.
AGAIN = Retry(
    20, backoff_factor=0.2, backoff_max=2, status_forcelist=(502, 503), allowed_methods={"GET"},
    raise_on_status=False,
)  # fmt: skip
#: As large as a page may be asked for; the service may give less.
PAGE = 1000
#: Variables that name the certificates to trust, in place of those of the system.
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


@dataclass(frozen=True, slots=True)
class Credentials:
    """How the caller proves who it is: a token, else a user and a password, else not at all."""

    token: str | None = None
    user: str | None = None
    password: str | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str], token: str | None = None) -> "Credentials":
        """
        Those of the environment.

        OS_USERNAME is often there for Keystone: it is for this service only if OS_AUTH_TYPE says
        so.
        """
        prefixes = ("INGOT", "OS") if environ.get("OS_AUTH_TYPE") == "http_basic" else ("INGOT",)
        for prefix in prefixes:
            if user := environ.get(f"{prefix}_USERNAME"):
                return cls(token, user, environ.get(f"{prefix}_PASSWORD", ""))
        return cls(token)


def trusted(
    environ: Mapping[str, str], bundle: str | None = None, *, insecure: bool = False
) -> bool | str:
    """
    How to verify the certificate of the service: by a file, by the default bundle (True), or not
    at all (False). Raises Usage.
    """
    if insecure:
        return False
    named = {"--os-cacert": bundle, **{name: environ.get(name) for name in BUNDLES}}
    for name, path in named.items():
        if path:
            if not Path(path).exists():
                raise Usage(f"{name}: there is no file {path}")
            return path
    return True


class Api:
    """
    The API at `url`. Paths are given as their parts: `api.get("nodes", node, "states", wait=5)`.

    Every method raises Failure with what the service, or the network, said. One thread uses it at
    a time. trust: see `trusted`. patient: a GET is repeated while the service is out of reach.
    """

    def __init__(
        self,
        url: str,
        credentials: Credentials = Credentials(),
        trust: bool | str = True,
        *,
        patient: bool = False,
    ) -> None:
        self._url, self._credentials, self._trust = url.rstrip("/"), credentials, trust
        where = urlsplit(self._url)
        if where.scheme not in ("http", "https") or not where.netloc:
            raise Usage(f"{url!r} is no URL of a service; it looks like {DEFAULT_URL}")
        if trust is False:
            disable_warnings(InsecureRequestWarning)  # --insecure says that it is known
        self._session = requests.Session()
        # no proxy leads to this host
        self._session.trust_env = where.hostname not in ("127.0.0.1", "localhost", "::1")
        self._session.headers.update(HEADERS)
        if credentials.token:
            self._session.headers["X-Auth-Token"] = credentials.token
        elif credentials.user is not None:
            self._session.auth = (credentials.user, credentials.password or "")
        if patient:
            for scheme in ("http://", "https://"):
                self._session.mount(scheme, HTTPAdapter(max_retries=AGAIN))

    def another(self, *, patient: bool = False) -> "Api":
        """The same with a connection of its own, for a thread, or for waiting."""
        return Api(self._url, self._credentials, self._trust, patient=patient)

    def get(self, *path: str, **query: Any) -> Any:
        return self.ask("GET", *path, query=query).json()

    def every(self, *path: str, limit: int | None = None, **query: Any) -> Iterator[Document]:
        """The items of a collection, page after page, at most `limit`."""
        collection, query = path[-1], {"limit": min(limit or PAGE, PAGE), **query}
        while True:
            page = self.get(*path, **query)
            items = page[collection][:limit]
            yield from items
            limit = limit and limit - len(items)
            if "next" not in page or limit == 0:
                return
            query["marker"] = parse_qs(urlsplit(page["next"]).query)["marker"][0]

    def ask(
        self, method: str, *path: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> requests.Response:
        """An answer that is no error."""
        asked = {name: _word(value) for name, value in (query or {}).items() if value is not None}
        wait = float((query or {}).get("wait") or 0)
        where = "/".join(("v1", *map(_part, path)))
        return self._answer(method, where, params=asked, json=body, timeout=(CONNECT, READ + wait))

    def root(self) -> requests.Response:
        """The root document, which needs no credentials."""
        return self._answer("GET", "", timeout=(CONNECT, READ))

    def _answer(self, method: str, path: str, **options: Any) -> requests.Response:
        try:
            answer = self._session.request(
                method, f"{self._url}/{path}", allow_redirects=False, verify=self._trust, **options
            )
        except requests.Timeout as error:
            raise Failure(f"no answer from {self._url} in time") from error
        except requests.exceptions.SSLError as error:
            raise Failure(
                f"no answer from {self._url} ({_cause(error)});"
                " --os-cacert names the certificates to trust"
            ) from error
        except requests.RequestException as error:
            raise Failure(
                f"no answer from {self._url} ({_cause(error)}); --url says where the service is"
            ) from error
        if not 200 <= answer.status_code < 300:
            raise Failure(told(answer))
        return answer


def _part(text: str) -> str:
    if text in ("", ".", ".."):
        raise Usage(f"{text!r} names nothing")
    return quote(text, safe="")


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cause(error: BaseException) -> str:
    """The innermost reason that an error knows, without the objects around it."""
    found: Any = error
    while True:
        wrapped = (getattr(found, "reason", None), *found.args[:1], found.__cause__)
        inner = next((each for each in wrapped if isinstance(each, BaseException)), None)
        if inner is None:
            return getattr(found, "strerror", None) or str(found)
        found = inner


def told(answer: requests.Response) -> str:
    """What an answer says is wrong, as one line: all of the service's shapes, and anybody's."""
    try:
        fault = answer.json()
        if isinstance(inner := fault.get("error_message"), str):
            fault = json.loads(inner)
        said = fault.get("faultstring") or fault.get("description") or fault.get("title")
    except (ValueError, AttributeError):
        said = None
    if not said:
        return f"{answer.status_code} {answer.reason} from {urlsplit(answer.url).netloc}"
    return " ".join(str(said).split())
