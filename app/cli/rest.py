"""Client of the REST API."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs, quote, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import disable_warnings
from urllib3.exceptions import InsecureRequestWarning
from urllib3.util import Retry

from app.cli import DEFAULT_URL
from app.cli.terminal.errors import Busy, Failure, Usage
from app.cli.terminal.output import Document
from app.cli.terminal.tables import UUID

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

#: Microversion of all requests; an older service refuses it with a message.
HEADERS = {"X-OpenStack-Ironic-API-Version": "1.115", "User-Agent": "ingot"}
#: Timeouts, in seconds.
CONNECT, READ = 10.0, 60.0
#: Retries of GET, so that following an operation survives a restart of the API.
AGAIN = Retry(
    20, backoff_factor=0.2, backoff_max=2, status_forcelist=(502, 503), allowed_methods={"GET"},
    raise_on_status=False,
)  # fmt: skip
#: Accepted words that an error lists even if one of them is near to the wrong one.
FEW = 5
_SCHEMA = re.compile(r"^Schema error(?: for [\w ]+)?: ")
_CHOICE = re.compile(r"'(?P<word>[^']*)' is not one of \[(?P<words>[^\]]*)\]")
#: Errors about an expression of selection.
_IN_WHERE = re.compile(r"Character \d+ of where\b")
#: Tries of a patient GET whose answer breaks off, because the API ends while it sends it.
BROKEN = 3
#: Requested page size; the service may return fewer items.
PAGE = 1000
#: Environment variables with the path of CA certificates, instead of the system's.
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of the caller: a token, else a user and a password, else none."""

    token: str | None = None
    user: str | None = None
    password: str | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str], token: str | None = None) -> "Credentials":
        """
        Read the credentials from the environment.

        OS_USERNAME is often set for Keystone; it is used only if OS_AUTH_TYPE is http_basic.
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
    Return the CA certificates to trust: a file, the default bundle (True), or no check (False).

    Raises Usage.
    """
    if insecure:
        return False
    bundle_paths = {"--os-cacert": bundle, **{name: environ.get(name) for name in BUNDLES}}
    for name, path in bundle_paths.items():
        if path:
            if not Path(path).exists():
                raise Usage(f"{name}: there is no file {path}")
            return path
    return True


class Api:
    """
    Client of the API at `url`. Paths are passed in parts: `api.get("nodes", node, "states")`.

    Not thread-safe; `another` makes a client for another thread. trust: result of `trusted`.
    patient: retry GET while the service is unreachable.

    Every method raises Failure with the error message of the service or of the network.
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
        self._patient = patient
        parts = urlsplit(self._url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise Usage(f"{url!r} is no URL of a service; it looks like {DEFAULT_URL}")
        if trust is False:
            disable_warnings(InsecureRequestWarning)  # --insecure is deliberate
        self._session = requests.Session()
        # a proxy cannot reach this host
        self._session.trust_env = parts.hostname not in ("127.0.0.1", "localhost", "::1")
        self._session.headers.update(HEADERS)
        if credentials.token:
            self._session.headers["X-Auth-Token"] = credentials.token
        elif credentials.user is not None:
            self._session.auth = (credentials.user, credentials.password or "")
        if patient:
            for scheme in ("http://", "https://"):
                self._session.mount(scheme, HTTPAdapter(max_retries=AGAIN))

    def another(self, *, patient: bool = False) -> "Api":
        """Create a client with a connection of its own, for another thread or for polling."""
        return Api(self._url, self._credentials, self._trust, patient=patient)

    def get(self, *path: str, **query: object) -> Any:
        return self.request("GET", *path, query=query).json()

    def every(self, *path: str, limit: int | None = None, **query: object) -> Iterator[Document]:
        """Yield the items of a collection, page after page, at most `limit`."""
        collection, query = path[-1], {"limit": min(limit or PAGE, PAGE), **query}
        while True:
            page = self.get(*path, **query)
            items = page[collection][:limit]
            yield from items
            limit = limit and limit - len(items)
            if "next" not in page or limit == 0:
                return
            query["marker"] = parse_qs(urlsplit(page["next"]).query)["marker"][0]

    def request(
        self, method: str, *path: str, query: Mapping[str, Any] | None = None, body: object = None
    ) -> requests.Response:
        """Send a request. Raises Failure, Busy: the status is not 2xx, or there is no response."""
        params = {name: _word(value) for name, value in (query or {}).items() if value is not None}
        wait = float((query or {}).get("wait") or 0)
        url_path = "/".join(("v1", *map(_part, path)))
        try:
            return self._answer(
                method, url_path, params=params, json=body, timeout=(CONNECT, READ + wait)
            )
        except Failure as failure:
            raise type(failure)(self._with_name(str(failure), path)) from failure

    def _with_name(self, text: str, path: Sequence[str]) -> str:
        """Replace the UUID of a node in an error by the name that the request had."""
        uuids = {match[0] for match in UUID.finditer(text)}
        if path[0] != "nodes" or len(path) < 2 or len(uuids) != 1 or UUID.fullmatch(path[1]):
            return text
        try:
            answer = self._answer(
                "GET", f"v1/nodes/{_part(path[1])}", params={"fields": "uuid"},
                timeout=(CONNECT, READ),
            )  # fmt: skip
            uuid = answer.json().get("uuid")
        except (Failure, ValueError, AttributeError):
            return text
        return text.replace(uuid, path[1]) if uuid in uuids else text

    def socket(
        self, *path: str, protocols: Sequence[str]
    ) -> AbstractContextManager["ClientConnection"]:
        """
        Return a WebSocket, open within `with`. protocols: one of them is accepted.

        `with` raises OSError, WebSocketException: it cannot be opened.
        """
        import ssl  # here, as few commands need it

        from websockets.sync.client import connect
        from websockets.typing import Subprotocol

        place = "/".join(("v1", *map(_part, path)))
        context = None
        if self._url.startswith("https"):
            context = ssl.create_default_context(
                cafile=self._trust if isinstance(self._trust, str) else None
            )
            if self._trust is False:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        url = f"ws{self._url.removeprefix('http')}/{place}"
        subprotocols = [Subprotocol(protocol) for protocol in protocols]
        proxy: Literal[True] | None = True if self._session.trust_env else None
        return connect(
            url, subprotocols=subprotocols, ssl=context, proxy=proxy, open_timeout=CONNECT
        )

    def root(self) -> requests.Response:
        """Get the root document, which needs no credentials."""
        return self._answer("GET", "", timeout=(CONNECT, READ))

    def _answer(self, method: str, path: str, **options: object) -> requests.Response:
        try:
            answer = self._sent(method, path, **options)
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
            text = error_text(answer)
            if _IN_WHERE.match(text):
                raise Usage(f"--where: {text}")
            failure = Busy if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS else Failure
            raise failure(text)
        return answer

    def _sent(self, method: str, path: str, **options: Any) -> requests.Response:
        """Send a request, and read the whole answer. Raises requests.RequestException."""
        url, tries = f"{self._url}/{path}", BROKEN if self._patient and method == "GET" else 1
        options |= {"allow_redirects": False, "verify": self._trust}
        for _ in range(tries - 1):
            with suppress(requests.exceptions.ChunkedEncodingError):
                return self._session.request(method, url, **options)
        return self._session.request(method, url, **options)


def _part(text: str) -> str:
    if text in ("", ".", ".."):
        raise Usage(f"{text!r} names nothing")
    return quote(text, safe="")


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cause(error: BaseException) -> str:
    """Return the text of the innermost cause of an error."""
    cause: Any = error
    while True:
        wrapped = (getattr(cause, "reason", None), *cause.args[:1], cause.__cause__)
        inner = next(
            (argument for argument in wrapped if isinstance(argument, BaseException)), None
        )
        if inner is None:
            return getattr(cause, "strerror", None) or str(cause)
        cause = inner


def error_text(answer: requests.Response) -> str:
    """Format an error response as one line, in each error format of the service or of a proxy."""
    try:
        fault = answer.json()
        if isinstance(inner := fault.get("error_message"), str):
            fault = json.loads(inner)
        message = fault.get("faultstring") or fault.get("description") or fault.get("title")
    except (ValueError, AttributeError):
        message = None
    if not message:
        return f"{answer.status_code} {answer.reason} from {urlsplit(answer.url).netloc}"
    return _plain(" ".join(str(message).split()))


def _plain(text: str) -> str:
    """Remove words of the schema from an error; name the nearest of many accepted words."""
    text = _SCHEMA.sub("", text)
    match = _CHOICE.search(text)
    if match is None:
        return text
    words = re.findall(r"'([^']*)'", match["words"])
    nearest = get_close_matches(match["word"], words, 1)
    if not nearest or len(words) < FEW:
        return text
    start, end = match.span("words")
    return f"{text[: start - 1]}{len(words)} words; the nearest is {nearest[0]!r}{text[end + 1 :]}"
