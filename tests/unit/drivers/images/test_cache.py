"""The cache of boot files: only whole copies are used, even if a server says that nothing has changed."""

import hashlib
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drivers.core.errors import BadImage, Unexpected
from drivers.images import cache, checksums, published
from tests.support.web import Handler, serving
from tests.unit.drivers.machines import OPTIONS, target

KERNEL = hashlib.shake_256(b"a kernel").digest(1 << 16)
SHA256 = hashlib.sha256(KERNEL).hexdigest()


@pytest.fixture
def node(tmp_path):
    changes = {
        "pxe": {"instance_master_path": str(tmp_path / "kept")},
        "deploy": {"http_root": str(tmp_path / "http"), "http_url": "http://conductor"},
    }
    return target(
        options={group: {**values, **changes.get(group, {})} for group, values in OPTIONS.items()}
    )


@pytest.fixture
def server():
    """Server of a kernel with a validator; `answers` has the status of each request."""
    answers = []

    class Asked(Handler):
        def do_GET(self):
            same = self.headers.get("If-None-Match") == '"1"'
            answers.append(304 if same else 200)
            self.send_response(answers[-1])
            self.send_header("ETag", '"1"')
            self.send_header("Content-Length", "0" if same else str(len(KERNEL)))
            self.end_headers()
            self.wfile.write(b"" if same else KERNEL)

    with serving(Asked) as it:
        yield f"{it.url}/kernel", answers


def restart():
    """Forget what this process knows of the copies."""
    cache._WHOLE.clear()


def keep_times(path, content):
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


FLIPPED = bytes([KERNEL[0] ^ 1]) + KERNEL[1:]
DAMAGES = {
    "cut": lambda path: path.write_bytes(KERNEL[:10_000]),
    "empty": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(KERNEL + b"\0"),
    "zeros of the same size": lambda path: path.write_bytes(bytes(len(KERNEL))),
    "another bit": lambda path: path.write_bytes(FLIPPED),
    "another bit at the same time": lambda path: keep_times(path, FLIPPED),
    "another file": lambda path: (path.unlink(), path.write_bytes(FLIPPED)),
    "gone": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize(
    ("damage", "restarted"),
    [
        *((damage, True) for damage in DAMAGES),
        # a running process reads a copy again after a change of its size or time
        *((damage, False) for damage in DAMAGES if not damage.endswith("at the same time")),
    ],
)
def test_a_damaged_copy_is_fetched_again(node, server, damage, restarted):
    url, answers = server
    copy = cache.get(node, url)
    DAMAGES[damage](copy.path)
    if restarted:
        restart()
    if damage == "a folder":
        with pytest.raises(BadImage):
            cache.get(node, url)
        return
    again = cache.get(node, url)
    assert (KERNEL, SHA256) == (again.path.read_bytes(), again.sha256)
    assert [200, 200] == answers


def test_a_whole_copy_is_read_once_by_a_process_and_fetched_once(node, server, monkeypatch):
    url, answers = server
    digests = []
    digest = cache._sha256
    monkeypatch.setattr(cache, "_sha256", lambda file: digests.append(1) or digest(file))
    copies = [cache.get(node, url) for _ in range(3)]
    assert [KERNEL] * 3 == [copy.path.read_bytes() for copy in copies]
    assert ([200, 304, 304], 1) == (answers, len(digests))
    restart()
    copies = [cache.get(node, url) for _ in range(3)]
    assert ([200, 304, 304, 304, 304, 304], 2) == (answers, len(digests))


@pytest.mark.parametrize(
    "record", ["", "{", "[]", "7", "null", '{"sha256": 7, "validators": {}}', '{"sha256": "a"}',
               '{"sha256": "0", "validators": {"ETag": "\\"1\\""}}',
               '{"sha256": "0", "validators": [1]}', '{"sha256": "0", "validators": {"ETag": 1}}'],
)  # fmt: skip
@pytest.mark.parametrize("restarted", [True, False])
def test_a_damaged_record_is_not_trusted(node, server, record, restarted):
    url, _ = server
    copy = cache.get(node, url)
    copy.path.with_suffix(".json").write_text(record)
    copy.path.write_bytes(FLIPPED)
    if restarted:
        restart()
    again = cache.get(node, url)
    assert (KERNEL, SHA256) == (again.path.read_bytes(), again.sha256)
    assert SHA256 == json.loads(copy.path.with_suffix(".json").read_text())["sha256"]


def test_concurrent_uses_of_a_damaged_copy_all_get_the_file(node, server):
    url, answers = server
    copy = cache.get(node, url)
    copy.path.write_bytes(KERNEL[:10])
    ready = threading.Barrier(8)

    def use(number):
        ready.wait(60)
        place = Path(node.options["deploy"]["http_root"]) / f"kernel-{number}"
        place.parent.mkdir(exist_ok=True)
        cache.put(cache.get(node, url).path, place)
        return place.read_bytes()

    with ThreadPoolExecutor(8) as pool:
        assert [KERNEL] * 8 == list(pool.map(use, range(8)))
    assert 2 == answers.count(200)


def test_a_server_that_sends_nothing_for_a_new_copy_is_refused(node):
    class Empty(Handler):
        def do_GET(self):
            self.send_response(304)
            self.end_headers()

    with serving(Empty) as it, pytest.raises((Unexpected, BadImage)):
        cache.get(node, f"{it.url}/kernel")


def test_a_file_is_on_the_disk_before_it_has_its_name(node, server, monkeypatch):
    url, _ = server
    steps = []
    fsync, replace = os.fsync, Path.replace

    def synced(number):
        steps.append(("synced", os.fstat(number).st_size))
        fsync(number)

    def replaced(self, other):
        steps.append(("named", self.stat().st_size))
        return replace(self, other)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    cache.get(node, url)
    assert [("synced", len(KERNEL)), ("named", len(KERNEL))] == steps[:2]
    steps.clear()
    published.publish(node, url, checksums.Checksum("sha256", SHA256))
    assert [("synced", len(KERNEL)), ("named", len(KERNEL))] == steps[:2]


@pytest.mark.parametrize("content", [b"", KERNEL[:100], FLIPPED], ids=["empty", "cut", "other"])
def test_a_loader_that_differs_is_put_again(tmp_path, content):
    loader, place = tmp_path / "loader", tmp_path / "published"
    loader.write_bytes(KERNEL)
    place.write_bytes(content)
    cache.put(loader, place)
    assert KERNEL == place.read_bytes()
    inode = place.stat().st_ino
    cache.put(loader, place)
    assert inode == place.stat().st_ino


@pytest.mark.parametrize("content", [b"", KERNEL[:100], FLIPPED], ids=["empty", "cut", "other"])
def test_a_published_image_that_was_damaged_is_published_again(node, server, content):
    url, answers = server
    checksum = checksums.Checksum("sha256", SHA256)
    root = Path(node.options["deploy"]["http_root"])
    first_url = published.publish(node, url, checksum)
    assert first_url == published.publish(node, url, checksum)
    (root / first_url.removeprefix("http://conductor/")).write_bytes(content)
    second_url = published.publish(node, url, checksum)
    assert KERNEL == (root / second_url.removeprefix("http://conductor/")).read_bytes()
    assert [200, 200] == answers
