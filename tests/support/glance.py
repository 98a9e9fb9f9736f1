"""A little Glance: images of its API v2, with the token of tests.support.keystone."""

import hashlib
from contextlib import contextmanager
from uuid import uuid4

from tests.support import web


class Images:
    """
    records: UUID -> record. content: UUID -> bytes. members: UUID -> [(project, status)].

    request_log: (path, token) of all requests. failures: status codes of the next answers.
    """

    def __init__(self):
        self.records, self.content, self.members = {}, {}, {}
        self.request_log, self.failures = [], []
        self.token = None  # the only accepted one; None: any
        self.redirect = None  # target of the redirects that answer requests for content

    def add(self, content, **changed):
        """Store an image; return its UUID."""
        uuid = changed.pop("uuid", None) or str(uuid4())
        self.content[uuid] = content
        self.records[uuid] = {
            "id": uuid, "name": "an image", "status": "active", "visibility": "public",
            "owner": "ours", "size": len(content), "disk_format": "raw",
            "container_format": "bare", "os_hidden": False, "tags": [],
            "checksum": hashlib.md5(content).hexdigest(),
            "os_hash_algo": "sha512", "os_hash_value": hashlib.sha512(content).hexdigest(),
            **changed,
        }  # fmt: skip
        return uuid

    def answer(self, path, headers):
        """(status, document or bytes, headers)"""
        self.request_log.append((path, headers.get("X-Auth-Token")))
        if self.failures:
            return self.failures.pop(0), {"message": "out of order"}, {}
        if self.token and headers.get("X-Auth-Token") != self.token:
            return 401, {"message": "who?"}, {}
        uuid, _, part = path.removeprefix("/v2/images/").partition("/")
        if not path.startswith("/v2/images/") or uuid not in self.records:
            return 404, {"message": "no image"}, {}
        if not part:
            return 200, self.records[uuid], {}
        if part == "members":
            rows = [{"member_id": p, "status": s} for p, s in self.members.get(uuid, ())]
            return 200, {"members": rows}, {}
        if self.redirect:
            return 302, b"", {"Location": self.redirect}
        content, byte_range = self.content[uuid], headers.get("Range")
        if not byte_range:
            return 200, content, {}
        first, last = map(int, byte_range.removeprefix("bytes=").split("-"))
        whole = len(content)
        return 206, content[first : last + 1], {"Content-Range": f"bytes {first}-{last}/{whole}"}


@contextmanager
def serving():
    """A Glance on a free port; `settings` are those of [glance] for it, without Keystone."""
    images = Images()

    class Asked(web.Handler):
        def do_GET(self):
            self.answer(*images.answer(self.path, self.headers))

    with web.serving(Asked) as server:
        images.url = server.url
        images.settings = {"auth_type": "none", "endpoint_override": server.url}
        yield images
