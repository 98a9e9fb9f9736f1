"""
The one door to the outside: conductors open the files and URLs of nodes, settings and rules here.

A file is a regular one below an allowed directory (`drivers.net.urls`). A URL may lead only to the
networks that settings allow, also after redirects (`drivers.net.networks`). Size and duration are
limited, and credentials are sent only to the server that they were given for. Errors name the field
of the URL, and the setting that refused it.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urljoin

import requests
from urllib3.util import Retry

from drivers.core.errors import BadImage, HardwareError, Unreachable
from drivers.core.target import Options, Target
from drivers.net import networks, urls
from drivers.net.answers import UNCOMPRESSED, bind, origin
from drivers.net.connections import Adapter, Exchange
from drivers.net.tls import bundle

logger = logging.getLogger(__name__)

MOST_REDIRECTS = 10
_MEBIBYTE = 1 << 20


#: Answer of a server.
Answer = requests.Response


class Authorization(requests.auth.AuthBase):
    """A value of the header `Authorization`; None: no header."""

    def __init__(self, value: str | None) -> None:
        self._value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._value:
            request.headers["Authorization"] = self._value
        return request


@dataclass(slots=True)
class Source:
    """An opened file or URL."""

    url: str
    size: int | None  # bytes of the whole file; None: the server did not report it
    headers: Mapping[str, str]  # of the server's answer; empty for a file
    not_modified: bool  # the validators in the request are those of the file
    _stream: Any
    _longest: int  # bytes
    _read: int = 0  # bytes so far

    def read(self, size: int) -> bytes:
        """
        Read the next bytes.

        Raises Unreachable: the connection broke off.
        Raises BadImage: the source is longer than `[conductor]fetch_max_size`.
        """
        try:
            data = bytes(self._stream.read(size))
        except HardwareError:
            raise
        except Exception as error:  # urllib3's own errors have no common base with OSError
            raise Unreachable(f"{urls.redacted(self.url)} broke off: {cause(error)}") from None
        self._read += len(data)
        if self._read > self._longest:
            raise _too_large(self.url, self._longest)
        return data


@contextmanager
def opened(target: Target, url: str, headers: Mapping[str, str] | None = None) -> Iterator[Source]:
    """
    Open a file, http or https URL of a node or a setting for reading.

    Raises InvalidDriverInfo: a setting refuses the file or the address.
    Raises BadImage, Unreachable: it cannot be read.
    """
    if urls.is_file(url):
        max_bytes = _max_bytes(target)
        with urls.opened(target.options, url) as (file, _path):
            yield Source(url, os.fstat(file.fileno()).st_size, {}, False, file, max_bytes)
        return
    with answered(target, url, headers=headers) as answer:
        if not answer.ok:
            error_class = Unreachable if answer.status_code >= 500 else BadImage
            raise error_class(
                f"{urls.redacted(url)} cannot be fetched: the server answered {answer.status_code}"
                f" {answer.reason}"
            )
        yield source_of(target, url, answer, headers or {}, answer.raw)


def source_of(
    target: Target, url: str, answer: requests.Response, headers: Mapping[str, str], stream: object
) -> Source:
    """
    Return the content of an answer.

    headers: those of the request. stream: file object of the content.

    Raises BadImage: it is longer than `[conductor]fetch_max_size`.
    """
    size, max_bytes = _size(answer), _max_bytes(target)
    if size is not None and size > max_bytes and "Range" not in headers:
        raise _too_large(url, max_bytes)
    not_modified = answer.status_code == requests.codes.not_modified
    return Source(url, size, answer.headers, not_modified, stream, max_bytes)


@contextmanager
def service_session(name: str, seconds: float) -> Iterator[requests.Session]:
    """
    Yield a session with a service of the settings, in any network; it ends after `seconds`.

    Raises Unreachable: at its end, if it took longer.
    """
    with _exchange(networks.Reach(name, "", "", (), ()), name, seconds) as session:
        yield session


@contextmanager
def answered(
    target: Target,
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    timeout: float | None = None,
    logins: Mapping[Any, Any] | None = None,
) -> Iterator[requests.Response]:
    """
    Request a http or https URL, and yield the answer after redirects; it may have any status.

    timeout: seconds for the whole exchange; by default, from the settings. logins: origin -> `auth`
    of `requests`; by default, the password of the image server.

    Raises InvalidDriverInfo: a setting refuses the address.
    Raises Unreachable: no answer.
    """
    default, field = target.options["DEFAULT"], field_of(target, url)
    pause = float(default["webserver_connection_timeout"])
    deadline = timeout or float(target.options["conductor"]["fetch_timeout"])
    request_options = {
        "headers": {**UNCOMPRESSED, **(headers or {})},
        "timeout": min(pause, deadline),
    }
    with (
        bundle(default["webserver_verify_ca"]) as verify,
        _exchange(networks.of_urls(target.options, field), urls.redacted(url), deadline) as session,
        _following(
            session,
            method,
            url,
            field,
            _login(target) if logins is None else logins,
            verify=verify,
            **request_options,
        ) as answer,
    ):
        yield answer


def call(options: Options, field: str, url: str, **request_options: Any) -> None:
    """
    GET a URL of a rule; ignore the body of the answer.

    field: the rule, for errors. request_options: headers, proxies and timeout of `requests`, and
    retry.

    Raises Unreachable, requests.HTTPError: no answer, or an error.
    Raises InvalidDriverInfo: a setting refuses the address.
    """
    deadline = float(options["conductor"]["fetch_timeout"])
    retry = request_options.pop("retry")
    with (
        _exchange(networks.of_urls(options, field), urls.redacted(url), deadline, retry) as session,
        _following(session, "GET", url, field, {}, verify=True, **request_options) as answer,
    ):
        answer.raise_for_status()


@dataclass(frozen=True, slots=True)
class Posted:
    """Answer to a POST."""

    status: int
    retry_after: float | None  # seconds until the server wants another request; None: not stated


def post(
    options: Options,
    reach: networks.Reach,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout: float,
) -> Posted:
    """
    POST to a URL; the body of the answer is not read, no redirect followed.

    reach: networks that it may lead to. timeout: seconds for the whole exchange.

    Raises Unreachable: no answer.
    Raises InvalidDriverInfo: a setting refuses the address.
    """
    with (
        bundle(options["DEFAULT"]["webserver_verify_ca"]) as verify,
        _exchange(reach, urls.redacted(url), timeout) as session,
    ):
        try:
            answer = session.post(
                url, data=body, headers=headers, verify=verify, stream=True, allow_redirects=False,
                timeout=(timeout, None),  # the exchange ends a read
            )  # fmt: skip
        except HardwareError:
            raise
        except (requests.RequestException, OSError, ValueError) as error:
            raise Unreachable(f"{urls.redacted(url)} cannot be reached: {cause(error)}") from None
        with answer:
            return Posted(answer.status_code, _retry_after(answer.headers))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of Retry-After; a date there is compared with the answer's own date."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal() and text.isascii():
        return float(text[:9])
    try:
        retry_time, sent_time = (
            parsedate_to_datetime(date_text) for date_text in (text, headers.get("Date", ""))
        )
        return max((retry_time - sent_time).total_seconds(), 0.0)
    except (TypeError, ValueError):  # malformed, or with and without a time zone
        return None


def field_of(target: Target, url: str) -> str:
    """Return the field or setting that has a URL, else the URL itself; for errors."""
    for info_name, info in (
        ("instance_info", target.instance_info),
        ("driver_info", target.driver_info),
    ):
        for name, value in info.items():
            if value == url:
                return f"{info_name}/{name}"
    for group, values in target.options.items():
        for name, value in values.items():
            if value == url or (isinstance(value, dict) and url in value.values()):
                return f"[{group}]{name}"
    return urls.redacted(url)


def cause(error: BaseException) -> str:
    """Return the innermost error text of the system."""
    reason: str | None = None
    cause_error: BaseException | None = error
    while cause_error is not None:
        if isinstance(cause_error, OSError) and cause_error.strerror:
            reason = cause_error.strerror
        cause_error = cause_error.__cause__ or cause_error.__context__
    return reason or type(error).__name__


@contextmanager
def _exchange(
    reach: networks.Reach, name: str, deadline: float, retry: Retry | None = None
) -> Iterator[requests.Session]:
    """Yield a session whose connections may lead only to allowed networks, until a deadline."""

    def check(address: str) -> None:
        if setting := reach.refused_by(address):
            facts = {"field": reach.field, "url": name, "address": address, "setting": setting}
            logger.warning("fetch.refused", extra=facts)
        reach.check(address)

    with Exchange(name, deadline, check) as exchange, requests.Session() as session:
        # neither proxies nor passwords of the conductor's environment: a proxy would reach
        # networks that are refused here, and .netrc is not meant for the URLs of nodes
        bind(session, _FetchAdapter(exchange, retry))
        yield session


class _FetchAdapter(Adapter):
    def __init__(self, exchange: Exchange, retry: Retry | None) -> None:
        super().__init__(max_retries=retry or 0)
        self._exchange = exchange

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        return self.exchange(self._exchange, request, **options)


@contextmanager
def _following(
    session: requests.Session,
    method: str,
    url: str,
    field: str,
    logins: Mapping[Any, Any],
    **request_options: Any,
) -> Iterator[requests.Response]:
    """
    Request a URL, and follow redirects; yield the last answer.

    logins: origin -> `auth` of `requests`. Only http and https URLs are followed.
    """
    current_url = url
    try:
        for _ in range(MOST_REDIRECTS + 1):
            answer = session.request(
                method, current_url, auth=logins.get(origin(current_url)), stream=True,
                allow_redirects=False, **request_options,
            )  # fmt: skip
            if not answer.is_redirect:
                break
            answer.close()
            current_url = urls.checked(urljoin(current_url, answer.headers["Location"]), field)
        else:
            raise BadImage(f"{field}: more than {MOST_REDIRECTS} redirects")
    except HardwareError:
        raise
    except (requests.RequestException, OSError, ValueError) as error:
        raise Unreachable(f"{urls.redacted(url)} cannot be fetched: {cause(error)}") from None
    with answer:
        yield answer


def _login(target: Target) -> dict[object, tuple[str, str]]:
    """Return the password of the image server, by the origin that it was given for."""
    info = target.instance_info
    name, password = info.get("image_server_user"), info.get("image_server_password")
    if not (name and password):
        return {}
    return {origin(str(info.get("image_source"))): (str(name), str(password))}


def _max_bytes(target: Target) -> int:
    return int(target.options["conductor"]["fetch_max_size"]) * _MEBIBYTE


def _size(answer: requests.Response) -> int | None:
    """Return the size of the whole file, also for a partial answer."""
    total_size = answer.headers.get("Content-Range", "").rpartition("/")[2]
    length = total_size or answer.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() and len(length) < 20 else None


def _too_large(url: str, max_bytes: int) -> BadImage:
    return BadImage(
        f"{urls.redacted(url)} has more than {max_bytes // _MEBIBYTE} MiB, the most that"
        " [conductor]fetch_max_size allows"
    )
