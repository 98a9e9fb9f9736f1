"""
Images of container registries, by the distribution API of the Open Container Initiative.

`oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]` names an index or a manifest; by default, that of the
tag `latest`. An index leads to one manifest, by the architecture of the machine and the type of the
disk. The manifest of a disk has a single layer, the image. All content is compared with its digest.

A secret is sent to the registry that it belongs to, and to the server of tokens that this registry
names: `instance_info/image_pull_secret` to that of `image_source`, and those of the file
`[oci]authentication_config` to the registries that it lists.

Errors: Unreachable (no answer), InvalidDriverInfo (settings, or an address that must not be
reached), BadImage (no such image, not a disk, ambiguous, malformed), Refused (of the secret).
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

import requests

from drivers.core.errors import BadImage, InvalidDriverInfo, Refused, Unexpected, Unreachable
from drivers.core.target import Target
from drivers.net import answers, fetch

PREFIX = "oci://"
_REFERENCE = re.compile(
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?P<port>:[0-9]{1,5})?"
    r"/(?P<name>[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*)"
    r"(?P<tag>:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?P<digest>@sha256:[0-9a-f]{64})?"
)
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
#: Name of a registry in references -> its host.
_HOSTS = {"docker.io": "registry-1.docker.io"}
#: Architecture of a platform -> `properties/cpu_arch`.
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "386": "i686"}
#: Annotation `disktype` -> format.
_DISK_FORMATS = {"qcow2": "qcow2", "qemu": "qcow2", "raw": "raw", "applehv": "raw"}
_CHALLENGE_PARAMETER = re.compile(r'([a-z]+)="([^"\\]*)"')
_MOST_NAMED = 5  # manifests in an error


@dataclass(frozen=True, slots=True)
class Reference:
    """A parsed reference to an image."""

    host: str  # with a port, if it has one
    name: str  # of the repository
    version: str  # tag, or sha256:DIGEST

    def __str__(self) -> str:
        separator = "@" if _DIGEST.fullmatch(self.version) else ":"
        return f"{PREFIX}{self.host}/{self.name}{separator}{self.version}"


def parsed(reference: Any, field: str) -> Reference:
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


def describe(target: Target, reference: str) -> dict[str, str]:
    """Return the checksum and the format of an image, as fields of instance_info."""
    with _registry(target, reference) as registry:
        layer = registry.layer()
    facts = {"image_os_hash_algo": "sha256", "image_os_hash_value": layer.sha256}
    return facts | ({"image_disk_format": layer.disk_format} if layer.disk_format else {})


@contextmanager
def opened(target: Target, reference: str, headers: Mapping[str, str]) -> Iterator[fetch.Source]:
    """Open the content of an image, as `drivers.net.fetch.opened` opens a URL."""
    with _registry(target, reference) as registry:
        layer = registry.layer()
        with registry.get(f"blobs/sha256:{layer.sha256}", headers) as answer:
            content = (
                answer.raw
                if answer.status_code == 206
                else _Content(answer.raw, layer, registry.reference)
            )
            source = fetch.source_of(target, str(registry.reference), answer, headers, content)
            if source.size is None:
                source.size = layer.size
            if source.size != layer.size:
                raise BadImage(
                    f"{registry.reference} has {layer.size} bytes by its manifest, but the registry"
                    f" sends {source.size}"
                )
            yield source


@dataclass(frozen=True, slots=True)
class _Layer:
    """Descriptor of the image in a manifest."""

    sha256: str  # hexadecimal
    size: int  # bytes
    disk_format: str | None  # None: the registry does not tell


class _Content:
    """Content of an image, compared with its digest at the end."""

    def __init__(self, stream: Any, layer: _Layer, reference: Reference) -> None:
        self._stream, self._layer, self._reference = stream, layer, reference
        self._hash = hashlib.sha256()

    def read(self, size: int) -> bytes:
        """Read the next bytes. Raises BadImage: it was not the content of the digest."""
        data = bytes(self._stream.read(size))
        self._hash.update(data)
        if not data and self._hash.hexdigest() != self._layer.sha256:
            raise BadImage(f"{self._reference} has another content than its digest")
        return data


class _Registry:
    """A registry, asked about one image."""

    def __init__(self, target: Target, reference: Reference, secret: str | None) -> None:
        self.reference = reference
        self._target, self._secret = target, secret
        self._authorization: str | None = None
        host = _HOSTS.get(reference.host, reference.host)
        name = reference.name
        if host != reference.host and "/" not in name:
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

    def layer(self) -> _Layer:
        """Return the descriptor of the image."""
        document, media_type = self._document(self.reference.version)
        disk_format = None
        if media_type in _INDEXES:
            descriptor = self._chosen(document)
            disk_format = _disk_format(descriptor)
            document, media_type = self._document(_digest(descriptor, self.reference))
        if media_type not in _MANIFESTS:
            raise BadImage(f"{self.reference} is {media_type!r:.100}, not the manifest of an image")
        layers = document.get("layers")
        if not (isinstance(layers, list) and len(layers) == 1 and isinstance(layers[0], dict)):
            count = len(layers) if isinstance(layers, list) else "no"
            raise BadImage(
                f"{self.reference} is no disk: its manifest has {count} layers, and that of a disk"
                " has one"
            )
        size = layers[0].get("size")
        if not isinstance(size, int) or size <= 0:
            raise BadImage(f"{self.reference}: its layer has no size")
        digest = _digest(layers[0], self.reference)
        return _Layer(digest.partition(":")[2], size, disk_format or _disk_format(document))

    def _chosen(self, index: Mapping[str, Any]) -> dict[str, Any]:
        """Return the descriptor of the manifest that fits the machine and the declared format."""
        manifests = index.get("manifests")
        descriptors = [
            descriptor
            for descriptor in (manifests if isinstance(manifests, list) else ())
            if isinstance(descriptor, dict) and self._fits(descriptor)
        ]
        formats = {_disk_format(descriptor) for descriptor in descriptors}
        declared_format = self._target.instance_info.get("image_disk_format")
        for disk_format in (declared_format, "raw", "qcow2"):
            if disk_format and disk_format in formats:
                descriptors = [
                    descriptor
                    for descriptor in descriptors
                    if _disk_format(descriptor) == disk_format
                ]
                break
        if len(descriptors) == 1:
            return descriptors[0]
        if not descriptors:
            raise BadImage(
                f"{self.reference} has no image for {self._architecture or 'this machine'}"
                " (properties/cpu_arch)"
            )
        digests = ", ".join(
            str(descriptor.get("digest"))[:71] for descriptor in descriptors[:_MOST_NAMED]
        )
        raise BadImage(
            f"{self.reference} has {len(descriptors)} images that fit the machine; name one by its"
            f" digest: {digests}"
        )

    @property
    def _architecture(self) -> str | None:
        return self._target.properties.get("cpu_arch")

    def _fits(self, descriptor: Mapping[str, Any]) -> bool:
        """Whether a manifest is for the machine's architecture."""
        platform = descriptor.get("platform")
        platform = platform if isinstance(platform, dict) else {}
        architecture = str(platform.get("architecture") or "")
        if "unknown" in (architecture, platform.get("os")):  # attestations of other manifests
            return False
        architecture = _ARCHITECTURES.get(architecture, architecture)
        return not (architecture and self._architecture) or architecture == self._architecture

    def _document(self, version: str) -> tuple[dict[str, Any], str]:
        """Return an index or a manifest, and its media type. version: tag or digest."""
        headers = {"Accept": ", ".join((*_INDEXES, *_MANIFESTS))}
        with self.get(f"manifests/{version}", headers) as answer:
            body = answers.body_of(answer, answers.LONGEST)
            content_type = answer.headers.get("Content-Type", "")
        name = str(self.reference)
        answers.check_body(name, body, answers.LONGEST)
        digest = _DIGEST.fullmatch(version)
        if digest and hashlib.sha256(body).hexdigest() != digest[1]:
            raise BadImage(f"{self.reference}: the registry sent another manifest than {version}")
        document = answers.parsed(name, body)
        if not isinstance(document, dict):
            raise Unexpected(f"{name} is not a JSON object")
        return document, str(document.get("mediaType") or content_type.partition(";")[0].strip())

    @contextmanager
    def get(self, path: str, headers: Mapping[str, str]) -> Iterator[requests.Response]:
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
    ) -> AbstractContextManager[requests.Response]:
        url = f"{self._scheme}://{self._path}/{path}"
        logins = {answers.origin(url): _Authorization(self._authorization)}
        return fetch.answered(self._target, url, headers=headers, logins=logins)

    def _check(self, answer: requests.Response) -> None:
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
        if self._secret:
            basic = f"Basic {b64encode(self._secret.encode()).decode()}"
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
        logins = {answers.origin(url): _Authorization(basic)}
        with fetch.answered(self._target, url, logins=logins) as answer:
            self._check(answer)
            body = answers.body_of(answer, answers.LONGEST)
        answers.check_body(realm, body, answers.LONGEST)
        document = answers.parsed(realm, body)
        token = document.get("token") or document.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise Unexpected(f"{realm} sent no token for {self.reference}")
        self._authorization = f"Bearer {token}"


class _Authorization(requests.auth.AuthBase):
    """A value of the header `Authorization`; None: no header."""

    def __init__(self, value: str | None) -> None:
        self._value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._value:
            request.headers["Authorization"] = self._value
        return request


@contextmanager
def _registry(target: Target, reference: str) -> Iterator[_Registry]:
    image = parsed(reference, "image")
    yield _Registry(target, image, _secret(target, reference, image.host))


def _secret(target: Target, reference: str, host: str) -> str | None:
    """Return "user:password" for a registry, or None."""
    info = target.instance_info
    field, secret = "instance_info/image_pull_secret", None
    if reference == info.get("image_source"):
        secret = info.get("image_pull_secret")
    if not secret:
        path = target.options["oci"]["authentication_config"]
        if not path:
            return None
        field, secret = f"[oci]authentication_config: auth of {host}", _configured(path, host)
    return None if secret is None else _login(str(secret), field)


def _configured(path: str, host: str) -> Any:
    try:
        registries = json.loads(Path(path).read_text())["auths"]
        login = registries.get(host) or registries.get(f"https://{host}") or {}
        return login.get("auth")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidDriverInfo(
            f"[oci]authentication_config: {path} is not a file with"
            f' {{"auths": {{HOST: {{"auth": ...}}}}}} ({type(error).__name__})'
        ) from None


def _login(secret: str, field: str) -> str:
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


def _digest(descriptor: Mapping[str, Any], reference: Reference) -> str:
    digest = str(descriptor.get("digest"))
    if not _DIGEST.fullmatch(digest):
        raise BadImage(f"{reference}: {digest!r:.100} is no SHA-256 digest")
    return digest


def _disk_format(document: Mapping[str, Any]) -> str | None:
    """Return the format of a disk by the annotation of its descriptor or manifest."""
    annotations = document.get("annotations")
    disk_type = annotations.get("disktype") if isinstance(annotations, dict) else None
    return _DISK_FORMATS.get(disk_type) if isinstance(disk_type, str) else None
