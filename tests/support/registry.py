"""Container registries: a little one that can be wrong, and Debian's docker-registry."""

import base64
import hashlib
import json
import shutil
import subprocess
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import bcrypt
import requests

from tests.support import debian, web
from tests.support.fleet import until
from tests.support.ports import free_port
from tests.support.prerequisites import not_run

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
EMPTY = b"{}"


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def descriptor(content, media_type="application/octet-stream", **fields):
    return {"mediaType": media_type, "digest": digest(content), "size": len(content), **fields}


def manifest(*layers, **fields):
    """Return the JSON text of a manifest. layers: bytes."""
    document = {
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": descriptor(EMPTY, "application/vnd.oci.empty.v1+json"),
        "layers": [descriptor(layer) for layer in layers], **fields,
    }  # fmt: skip
    return json.dumps(document).encode()


def index(*manifests):
    """Return the JSON text of an index. manifests: descriptors."""
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}).encode()


class Registry:
    """
    Repository `library/disks` of a little registry.

    documents: version -> JSON text, and blobs: digest -> bytes; changed by tests.
    """

    def __init__(self):
        self.documents, self.blobs = {}, {}
        self.request_log = []  # (path, header Authorization) of all requests
        self.challenge = None  # WWW-Authenticate for requests without `accepted`; None: none
        self.accepted = None  # accepted header Authorization
        self.redirect = None  # base URL to which blobs are redirected
        self.failures = []  # status codes of the next answers

    def push(self, content, tag="latest", **fields):
        """Store a disk; return the text of its manifest."""
        text = manifest(content, **fields)
        self.blobs[digest(content)] = content
        self.documents[tag] = self.documents[digest(text)] = text
        return text

    def answer(self, path, headers):
        """Return status, document or bytes, and headers."""
        self.request_log.append((path, headers.get("Authorization")))
        if self.failures:
            return self.failures.pop(0), b"", {}
        if path.startswith("/token"):
            return 200, {"token": "t0k3n"}, {}
        if self.challenge and headers.get("Authorization") != self.accepted:
            return 401, b"", {"WWW-Authenticate": self.challenge}
        kind, _, version = path.removeprefix("/v2/library/disks/").partition("/")
        if kind == "manifests" and version in self.documents:
            return 200, self.documents[version], {"Content-Type": MANIFEST}
        if kind == "blobs" and version in self.blobs:
            if self.redirect:
                return 307, b"", {"Location": f"{self.redirect}/{version}"}
            return self._part(self.blobs[version], headers.get("Range"))
        return 404, b"", {}

    @staticmethod
    def _part(content, requested_range):
        if not requested_range:
            return 200, content, {}
        first, last = map(int, requested_range.removeprefix("bytes=").split("-"))
        total = f"bytes {first}-{last}/{len(content)}"
        return 206, content[first : last + 1], {"Content-Range": total}


@contextmanager
def serving(registry=None):
    """Serve a little registry; `host` is its host and port."""
    registry = registry or Registry()

    class RegistryHandler(web.Handler):
        def do_GET(self):
            self.answer(*registry.answer(self.path, self.headers))

    with web.serving(RegistryHandler) as server:
        registry.url, registry.host = server.url, urlsplit(server.url).netloc
        yield registry


def token_scope(path):
    """Return the scope that a request for a token names."""
    return parse_qs(urlsplit(path).query)["scope"]


@contextmanager
def real(folder, user=None, password=None):
    """
    Run Debian's docker-registry; yield its host and port.

    user, password: of its callers; by default, it has no authentication.
    """
    program = debian.provide(lambda: shutil.which("docker-registry"), "docker-registry")
    if program is None:
        not_run("docker-registry of Debian")
    host = f"127.0.0.1:{free_port()}"
    settings = {
        "version": "0.1", "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "registry")}},
        "http": {"addr": host},
    }  # fmt: skip
    if user:
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
        (folder / "htpasswd").write_text(f"{user}:{hashed}\n")
        settings["auth"] = {"htpasswd": {"realm": "test", "path": str(folder / "htpasswd")}}
    (folder / "config.yml").write_text(json.dumps(settings))
    process = subprocess.Popen([program, "serve", str(folder / "config.yml")])
    try:
        until(lambda: _answers(host), "the registry answers")
        yield host
    finally:
        process.kill()
        process.wait()


def upload(host, content, tag, login=None, **fields):
    """Push a disk to a real registry, as a client does; return the digest of its manifest."""
    base = f"http://{host}/v2/library/disks"
    with requests.Session() as session:
        session.auth = login
        for blob in (EMPTY, content):
            place = session.post(f"{base}/blobs/uploads/").headers["Location"]
            answer = session.put(place, params={"digest": digest(blob)}, data=blob)
            answer.raise_for_status()
        text = manifest(content, **fields)
        answer = session.put(
            f"{base}/manifests/{tag}", data=text, headers={"Content-Type": MANIFEST}
        )
        answer.raise_for_status()
    return digest(text)


def basic(user, password):
    """Return the header of a user and password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _answers(host):
    try:
        return requests.get(f"http://{host}/v2/", timeout=5).status_code in (200, 401)
    except requests.ConnectionError:
        return False
