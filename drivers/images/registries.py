"""
Container registries: the distribution API of the Open Container Initiative, and its tokens.

`oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]` names an index or a manifest; by default, that of the
tag `latest`.

A secret is sent to the registry that it belongs to, and to the server of tokens that this registry
names: `instance_info/image_pull_secret` to that of `image_source`, and those of the file
`[oci]authentication_config` to the registries that it lists.

Errors: Unreachable (no answer), InvalidDriverInfo (settings, or an address that must not be
reached), BadImage (no such image), Refused (of the secret), Unexpected (malformed).
"""

import hashlib
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from drivers.core.errors import BadImage, InvalidDriverInfo, Refused, Unexpected, Unreachable
from drivers.core.target import Target
from drivers.net import answers, fetch

PREFIX = "oci://"
INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_REFERENCE = re.compile(
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?P<port>:[0-9]{1,5})?"
    r"/(?P<name>[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*)"
    r"(?P<tag>:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?"
)
#: Name of a registry in references -> its host.
_HOSTS = {"docker.io": "registry-1.docker.io"}
_CHALLENGE_PARAMETER = re.compile(r'([a-z]+)="([^"\\]*)"')


@dataclass(frozen=True, slots=True)
class Reference:
    """A parsed reference to an image."""

    host: str  # with a port, if it has one
    name: str  # of the repository
    version: str  # tag, or sha256:DIGEST

    def __str__(self) -> str:
        separator = "@" if DIGEST.fullmatch(self.version) else ":"
        return f"{PREFIX}{self.host}/{self.name}{separator}{self.version}"


def parsed(reference: object, field: str) -> Reference:
    """
    Parse a reference. field: its name, for the error.

    Raises InvalidDriverInfo: it is malformed.
    """
    text = str(reference)
    match = _REFERENCE.fullmatch(text[len(PREFIX) :]) if text.startswith(PREFIX) else None
    if match is None:
        raise InvalidDriverInfo(
            f"{field}: {text!r:.200} is not {PREFIX}HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]"
        )
    version = (match["digest"] or match["tag"] or ":latest")[1:]
    return Reference(match["host"] + (match["port"] or ""), match["name"], version)


def login(target: Target, reference: str) -> str | None:
    """
    Return "user:password" for the registry of a reference, or None.

    Raises InvalidDriverInfo: the secret, or the file with it, is malformed.
    """
    info = target.instance_info
    host = parsed(reference, "image").host
    field, secret = "instance_info/image_pull_secret", None
    if reference == info.get("image_source"):
        secret = info.get("image_pull_secret")
    if not secret:
        path = target.options["oci"]["authentication_config"]
        if not path:
            return None
        field, secret = f"[oci]authentication_config: auth of {host}", _configured(path, host)
    return None if secret is None else _decoded(str(secret), field)


@dataclass(frozen=True, slots=True)
class Document:
    """An index or a manifest."""

    content: dict[str, Any]
    media_type: str
    digest: str  # sha256:DIGEST


class Registry:
    """A registry, asked about one image."""

    def __init__(self, target: Target, reference: str) -> None:
        self.reference = parsed(reference, "image")
        self._target, self._login = target, login(target, reference)
        self._authorization: str | None = None
        name = self.reference.name
        host = _HOSTS.get(self.reference.host, self.reference.host)
        if host != self.reference.host and "/" not in name:
            name = f"library/{name}"
        self._repository, self._path = name, f"{host}/v2/{name}"
        self._scheme = self._scheme_of(host)

    def _scheme_of(self, host: str) -> str:
        """Return https; http if settings permit it, and there is no answer by https."""
        if not self._target.options["oci"]["permit_fallback_to_http_transport"]:
            return "https"
        try:
            with fetch.answered(self._target, f"https://{host}/v2/", logins={}):
                return "https"
        except Unreachable:
            return "http"

    def document(self, version: str) -> Document:
        """
        Return an index or a manifest. version: tag or digest.

        Raises BadImage: there is none, or it has another digest.
        """
        headers = {"Accept": ", ".join((*INDEXES, *MANIFESTS))}
        with self.get(f"manifests/{version}", headers) as answer:
            body = answers.body_of(answer, answers.LONGEST)
            content_type = answer.headers.get("Content-Type", "")
        name = str(self.reference)
        answers.check_body(name, body, answers.LONGEST)
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if DIGEST.fullmatch(version) and digest != version:
            raise BadImage(f"{self.reference}: the registry sent another manifest than {version}")
        content = answers.parsed(name, body)
        if not isinstance(content, dict):
            raise Unexpected(f"{name} is not a JSON object")
        media_type = content.get("mediaType") or content_type.partition(";")[0].strip()
        return Document(content, str(media_type), digest)

    @contextmanager
    def get(self, path: str, headers: Mapping[str, str]) -> Iterator[fetch.Answer]:
        """
        GET a part of the repository, with a token if the registry demands one.

        Raises BadImage, Refused, Unreachable: it is an error.
        """
        with self._answered(path, headers) as answer:
            challenge = answer.headers.get("WWW-Authenticate", "")
            if answer.status_code != 401 or self._authorization:
                self._check(answer)
                yield answer
                return
        self._authorize(challenge)
        with self._answered(path, headers) as answer:
            self._check(answer)
            yield answer

    def _answered(
        self, path: str, headers: Mapping[str, str]
    ) -> AbstractContextManager[fetch.Answer]:
        url = f"{self._scheme}://{self._path}/{path}"
        logins = {answers.origin(url): fetch.Authorization(self._authorization)}
        return fetch.answered(self._target, url, headers=headers, logins=logins)

    def _check(self, answer: fetch.Answer) -> None:
        status = answer.status_code
        if status in (200, 206, 304):
            return
        message = f"the registry answered {status} {answer.reason} for {self.reference}"
        if status == 404:
            raise BadImage(f"{message}: there is no such image, or the secret may not see it")
        if status in (401, 403):
            raise Refused(
                f"{message}: set instance_info/image_pull_secret or [oci]authentication_config"
            )
        if status == 429 or status >= 500:
            raise Unreachable(message)
        raise BadImage(message)

    def _authorize(self, challenge: str) -> None:
        """Set the header that a challenge demands."""
        scheme, _, text = challenge.partition(" ")
        basic = None
        if self._login:
            basic = f"Basic {b64encode(self._login.encode()).decode()}"
        if scheme.lower() == "basic":
            self._authorization = basic
            return
        parameters = dict(_CHALLENGE_PARAMETER.findall(text))
        realm = parameters.get("realm", "")
        if scheme.lower() != "bearer" or not realm.startswith(("https://", f"{self._scheme}://")):
            raise Refused(f"{self.reference}: the registry demands {challenge!r:.200}")
        query = {"scope": f"repository:{self._repository}:pull"}
        if "service" in parameters:
            query["service"] = parameters["service"]
        url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}"
        logins = {answers.origin(url): fetch.Authorization(basic)}
        with fetch.answered(self._target, url, logins=logins) as answer:
            self._check(answer)
            body = answers.body_of(answer, answers.LONGEST)
        answers.check_body(realm, body, answers.LONGEST)
        document = answers.parsed(realm, body)
        token = None
        if isinstance(document, dict):
            token = document.get("token") or document.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise Unexpected(f"{realm} sent no token for {self.reference}")
        self._authorization = f"Bearer {token}"


def _configured(path: str, host: str) -> object:
    try:
        registries = json.loads(Path(path).read_text())["auths"]
        login = registries.get(host) or registries.get(f"https://{host}") or {}
        return login.get("auth")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidDriverInfo(
            f"[oci]authentication_config: {path} is not a file with"
            f' {{"auths": {{HOST: {{"auth": ...}}}}}} ({type(error).__name__})'
        ) from None


def _decoded(secret: str, field: str) -> str:
    """Return "user:password" of a secret, which is that, or its Base64."""
    if ":" in secret:
        return secret
    try:
        login = b64decode(secret, validate=True).decode()
    except ValueError:
        login = ""
    if ":" not in login:
        raise InvalidDriverInfo(f"{field} is neither USER:PASSWORD nor its Base64")
    return login
