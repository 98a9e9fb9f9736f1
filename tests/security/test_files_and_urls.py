"""Files and URLs of nodes: a conductor opens only those that the settings allow."""

import hashlib
import socket
import time
from collections import namedtuple
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from app.config.settings import Settings
from app.inspection import rules
from app.inspection.subject import Subject
from drivers.agent import client, image
from drivers.boot import fetchable
from drivers.core.errors import BadImage, InspectionFailed, InvalidDriverInfo, Unreachable
from drivers.core.target import Agent, Material
from drivers.images import cache, image_server
from drivers.net import networks, urls
from drivers.redfish.transport import access
from tests.security.hostile import (
    flood,
    no_thread_left,
    raw_server,
    recording,
    redirecting_to,
    slow_headers,
    trickle,
    with_body,
)
from tests.support.certificates import PEM
from tests.unit.drivers.machines import OPTIONS, target

SECRET = b'{"AccessKeyId": "AKIAFAKE", "SecretAccessKey": "INTERNAL-ONLY-SECRET"}'
DIGEST = hashlib.sha256(SECRET).hexdigest()
INTERNAL = "127.0.0.2"  # refused below; the attacker's server is at 127.0.0.1
DEFAULTS = Settings().options()["conductor"]


@pytest.fixture
def internal():
    with recording(with_body(SECRET), INTERNAL) as server:
        yield server


def options(tmp_path, **conductor):
    conductor_options = {"fetch_denied_networks": (f"{INTERNAL}/32",), **conductor}
    changes = {
        "conductor": conductor_options,
        "deploy": {"http_root": str(tmp_path / "www"), "http_url": "http://conductor:8080"},
        "pxe": {"instance_master_path": str(tmp_path / "kept")},
    }
    return {group: {**values, **changes.get(group, {})} for group, values in OPTIONS.items()}


def node(tmp_path, url, conductor=None, **info):
    return target(
        interfaces={"deploy": "direct"},
        options=options(tmp_path, **(conductor or {})),
        instance_info={"image_source": url, "image_checksum": DIGEST, **info},
    )


def readings(it, url, tmp_path):
    """Each way in which a conductor reads what is at a URL."""
    local = replace(it, instance_info={**it.instance_info, "image_download_source": "local"})
    yield lambda: image.examine(it)
    yield lambda: image.examine(local)
    yield lambda: image_server.text(it, url)
    yield lambda: image_server.copy(it, url, tmp_path / "copy", {})
    yield lambda: cache.get(it, url)


def files_with(content, folder):
    return [path for path in folder.rglob("*") if path.is_file() and content in path.read_bytes()]


def refused(it, url, tmp_path, match):
    for read in readings(it, url, tmp_path):
        with pytest.raises((InvalidDriverInfo, BadImage), match=match) as raised:
            read()
        assert DIGEST not in str(raised.value)
    assert [] == files_with(SECRET, tmp_path)


def test_a_url_that_leads_to_a_refused_network_is_not_requested(tmp_path, internal):
    url = f"{internal.url}/latest/meta-data/iam"
    refused(node(tmp_path, url), url, tmp_path,
            r"instance_info/image_source: .*\[conductor\]fetch_denied_networks refuses")  # fmt: skip
    assert [] == internal.request_log


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_a_refused_network_is_not_followed(tmp_path, internal, status):
    with recording(redirecting_to(f"{internal.url}/latest/meta-data/iam", status)) as attacker:
        url = f"{attacker.url}/redir"
        refused(node(tmp_path, url), url, tmp_path, "instance_info/image_source: .*refuses")
    assert attacker.request_log
    assert [] == internal.request_log


def test_a_redirect_to_a_file_is_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    with recording(redirecting_to(f"file://{tmp_path}/secret")) as attacker:
        url = f"{attacker.url}/redir"
        it = node(tmp_path, url, {"file_url_allowed_paths": (str(tmp_path),)})
        refused(it, url, tmp_path, "instance_info/image_source: .* no http or https URL")


def test_redirects_end(tmp_path):
    with recording(redirecting_to("/again")) as attacker:
        with pytest.raises(BadImage, match="instance_info/image_source: more than 10 redirects"):
            image_server.text(node(tmp_path, attacker.url), attacker.url)
        assert 11 == len(attacker.request_log)


def test_a_name_that_resolves_to_another_address_after_the_check_gets_no_request(
    tmp_path, internal, monkeypatch
):
    """DNS rebinding: the first answer is allowed, the second is not."""
    answers, resolve = iter(["127.0.0.1"]), socket.getaddrinfo

    def rebound(host, *args, **kwargs):
        if host == "rebind.example":
            host = next(answers, INTERNAL)
        return resolve(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    url = internal.url.replace(INTERNAL, "rebind.example")
    with pytest.raises(InvalidDriverInfo, match="fetch_denied_networks"):
        image_server.text(node(tmp_path, url), url)
    assert [] == internal.request_log


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f.1", "0", "[::1]",
                                  "[::ffff:127.0.0.1]", "169.254.169.254", "[fe80::1]",
                                  "[64:ff9b::a9fe:a9fe]", "[fd00:ec2::254]", "[::ffff:a9fe:a9fe]"])  # fmt: skip
def test_the_defaults_refuse_loopback_link_local_and_metadata_addresses(tmp_path, host):
    denied = {"fetch_denied_networks": DEFAULTS["fetch_denied_networks"]}
    url = f"http://{host}:9/x"
    with pytest.raises(InvalidDriverInfo, match=r"\[conductor\]fetch_denied_networks refuses"):
        image_server.text(node(tmp_path, url, denied), url)


def test_validation_refuses_an_address_in_a_refused_network_and_names_field_and_setting(tmp_path):
    it = node(tmp_path, f"http://{INTERNAL}/image")
    with pytest.raises(InvalidDriverInfo, match=r"^instance_info/image_source: .*denied_networks"):
        it.driver.deploy.validate(it)
    it = node(tmp_path, "http://203.0.113.1/image", {"fetch_allowed_networks": ("10.0.0.0/8",)})
    with pytest.raises(InvalidDriverInfo, match=r"^instance_info/image_source: .*allowed_networks"):
        it.driver.deploy.validate(it)


def test_only_allowed_networks_are_contacted_if_there_are_any(tmp_path, internal):
    allowed = {"fetch_denied_networks": (), "fetch_allowed_networks": ("127.0.0.1/32",)}
    with recording(with_body(b"a text")) as server:
        assert "a text" == image_server.text(node(tmp_path, server.url, allowed), server.url)
    with pytest.raises(InvalidDriverInfo, match=r"\[conductor\]fetch_allowed_networks refuses"):
        image_server.text(node(tmp_path, internal.url, allowed), internal.url)
    assert [] == internal.request_log


def test_a_boot_medium_in_a_refused_network_is_not_requested(tmp_path, internal):
    with recording(redirecting_to(internal.url)) as attacker:
        it = node(tmp_path, "http://images/x")
        fetchable.check(it, attacker.url)
    assert "fetch_denied_networks" in it.reports["boot_warning"]
    assert [] == internal.request_log


@pytest.mark.parametrize("through", ["directly", "by a redirect", "by a proxy"])
def test_an_inspection_rule_calls_no_refused_network(tmp_path, internal, through):
    with recording(redirecting_to(internal.url)) as attacker:
        args = {
            "directly": {"url": internal.url},
            "by a redirect": {"url": attacker.url},
            "by a proxy": {"url": "http://x/", "proxies": {"http": internal.url}},
        }[through]
        subject = Subject.of(Material(node={"uuid": "n"}), {}, {}, options(tmp_path))
        rule = {"uuid": "r", "actions": [{"op": "api-call", "args": {**args, "retries": 0}}]}
        with pytest.raises(InspectionFailed, match="fetch_denied_networks"):
            rules.apply([rule], subject, "always")
    assert [] == internal.request_log


def test_the_password_of_an_image_is_sent_to_its_own_server_only(tmp_path):
    other = recording(with_body(f"{DIGEST}  image".encode()))
    with other as sums, recording(redirecting_to(f"{sums.url}/image")) as images:
        url = f"{images.url}/image"
        it = node(
            tmp_path, url, image_checksum=f"{sums.url}/SUMS",
            image_server_user="me", image_server_password="IMAGE-PW",
            image_server_auth_strategy="http_basic",
        )  # fmt: skip
        image.examine(it)
        image_server.text(it, f"{sums.url}/kernel")
    assert images.request_log
    assert all(
        headers["Authorization"] == "Basic bWU6SU1BR0UtUFc=" for _, headers in images.request_log
    )
    assert {"/image", "/SUMS", "/kernel"} == {path for path, _ in sums.request_log}
    assert not any("Authorization" in headers for _, headers in sums.request_log)


def test_neither_a_proxy_nor_a_password_of_the_environment_is_used(tmp_path, monkeypatch, internal):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password NETRC-PW\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("http_proxy", internal.url)
    with recording(with_body(b"a text")) as server:
        assert "a text" == image_server.text(node(tmp_path, server.url), server.url)
        ((_, headers),) = server.request_log
    assert "Authorization" not in headers
    assert [] == internal.request_log


def test_a_download_ends_at_the_largest_size(tmp_path):
    limit = {"fetch_max_size": 2}
    with raw_server(flood(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536)) as url:
        for save in (
            lambda it: image_server.copy(it, url, tmp_path / "copy", {}),
            lambda it: cache.get(it, url),
        ):
            with pytest.raises(BadImage, match=r"2 MiB, .*\[conductor\]fetch_max_size"):
                save(node(tmp_path, url, limit))
        it = node(tmp_path, url, limit, image_download_source="local")
        with pytest.raises(BadImage, match=r"fetch_max_size"):
            image.examine(it)
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]


def test_a_stated_size_beyond_the_largest_is_not_downloaded(tmp_path):
    with raw_server(trickle(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n", b"x")) as url:
        began = time.monotonic()
        with pytest.raises(BadImage, match="fetch_max_size"):
            image_server.copy(node(tmp_path, url, {"fetch_max_size": 1}), url, tmp_path / "c", {})
    assert time.monotonic() - began < 15  # the answer takes 20 s


def test_a_download_leaves_space_on_the_disk(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(
        image_server.shutil, "disk_usage", lambda _: usage(1 << 40, 0, (100 << 20) + 5)
    )
    with recording(with_body(b"x" * 10)) as server:
        for spare, free in ((100, False), (99, True)):
            it = node(tmp_path, server.url, {"fetch_min_free_space": spare})
            if free:
                cache.get(it, server.url)
            else:
                with pytest.raises(BadImage, match=r"\[conductor\]fetch_min_free_space"):
                    cache.get(it, server.url)
                assert [] == files_with(b"x", tmp_path)


@pytest.mark.parametrize("talk", [slow_headers,
                                  trickle(b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
                                  trickle(b"", b"", times=100)])  # fmt: skip
def test_a_server_that_sends_a_byte_now_and_then_holds_no_thread(tmp_path, talk):
    with raw_server(talk) as url, no_thread_left():
        began = time.monotonic()
        with pytest.raises(Unreachable, match=r"(within 0\.5 s|cannot be fetched)"):
            image_server.copy(
                node(tmp_path, url, {"fetch_timeout": 0.5}), url, tmp_path / "copy", {}
            )
    assert time.monotonic() - began < 15  # the answer takes 20 s, in one case 5 s
    assert not Path(tmp_path / "copy").exists()


def test_an_address_is_checked_in_each_of_its_forms():
    reach = networks.Reach("x", "allowed", "denied", (), ("10.0.0.0/8",))
    for address, allowed in (
        ("10.1.2.3", False), ("::ffff:10.1.2.3", False), ("64:ff9b::a01:203", False),
        ("2002:0a01:0203::1", False), ("::10.1.2.3", False), ("11.0.0.1", True), ("2001:db8::1", True),
        ("fe80::1%eth0", True),
    ):  # fmt: skip
        assert allowed is (reach.refused_by(address) is None), address


@pytest.mark.parametrize("name", ["data", "data/ingot.db", "data/images/../ingot.db"])
def test_the_data_directory_is_refused_even_below_an_allowed_directory(tmp_path, name):
    (tmp_path / "data" / "images").mkdir(parents=True)
    (tmp_path / "data" / "ingot.db").write_bytes(SECRET)
    target_options = options(tmp_path, file_url_allowed_paths=(str(tmp_path),))
    target_options["DEFAULT"] = {**target_options["DEFAULT"], "data_dir": str(tmp_path / "data")}
    with pytest.raises(InvalidDriverInfo, match="data directory"):
        urls.readable(target_options, f"FILE://{tmp_path}/{name}", "instance_info/image_source")


@pytest.mark.parametrize("field", ["redfish_verify_ca", "agent_verify_ca"])
def test_a_node_names_certificate_files_of_allowed_directories_only(tmp_path, field):
    """Otherwise the errors would tell which files a conductor has."""
    folder = tmp_path / "allowed"
    folder.mkdir()
    for place in (folder / "ca.pem", tmp_path / "other.pem"):
        place.write_text(PEM)
    (folder / "link.pem").symlink_to(tmp_path / "other.pem")
    target_options = options(tmp_path, verify_ca_allowed_paths=(str(folder),))

    def read(value):
        it = target(
            "redfish", {"deploy": "direct"}, options=target_options,
            driver_info={"redfish_address": "https://127.0.0.1:1", field: value},
            agent=Agent("https://127.0.0.1:1", "token"),
        )  # fmt: skip
        if field == "agent_verify_ca":
            client.commands(it)
        access.access(it)

    for wrong in (tmp_path / "other.pem", folder / "link.pem", "/proc/self/fd/2", "/etc/passwd", "x\0y",
                  folder / ".." / "other.pem", tmp_path / "none"):  # fmt: skip
        with pytest.raises(
            InvalidDriverInfo, match=rf"^driver_info/{field}: .*verify_ca_allowed_paths"
        ):
            read(str(wrong))
    for right in (str(folder / "ca.pem"), "true", False, PEM):
        with suppress(Unreachable):
            read(right)
