"""Vital signs of a role, as systemd and the probes of its exporter note them."""

import json
import os
import signal
from types import SimpleNamespace

import pytest

from app.process import vital_signs
from app.process.vital_signs import LONGEST, VitalSigns
from tests.support.log_output import logged
from tests.support.systemd import Systemd
from workers.supervisor import exporter


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path):
    address = str(tmp_path / "notify") if request.param == "path" else f"@ingot-test-{os.getpid()}"
    server = Systemd(address)
    yield server
    server.close()


def test_the_first_sign_says_ready_and_each_feeds_the_watchdog(systemd):
    signs = VitalSigns(systemd.environ | {"WATCHDOG_USEC": "90000000"})
    assert 90.0 == signs.patience
    signs.report("starts")
    signs.work("1 step in progress")
    signs.work("1 step in progress")
    assert [
        ["STATUS=starts"],
        ["READY=1", "WATCHDOG=1", "STATUS=1 step in progress"],
        ["WATCHDOG=1"],
    ] == systemd.heard()


def test_a_role_that_stops_is_not_ready_again_and_still_feeds_the_watchdog(systemd):
    signs = VitalSigns(systemd.environ | {"WATCHDOG_USEC": "90000000"})
    signs.work("")
    signs.stop("drains, 2 steps in progress")
    signs.work("1 step in progress")
    assert [
        ["READY=1", "WATCHDOG=1"],
        ["STOPPING=1", "STATUS=drains, 2 steps in progress"],
        ["WATCHDOG=1", "STATUS=1 step in progress"],
    ] == systemd.heard()
    assert not signs.is_ready


@pytest.mark.parametrize("timeout", [{}, {"WATCHDOG_USEC": "90000000", "WATCHDOG_PID": "1"}])
def test_without_a_watchdog_of_this_process_none_is_fed(systemd, timeout):
    signs = VitalSigns(systemd.environ | timeout)
    signs.work("")
    assert (None, [["READY=1"]]) == (signs.patience, systemd.heard())


def test_children_have_no_variables_of_the_protocol_and_give_no_signs(systemd):
    environ = systemd.environ | {"WATCHDOG_USEC": "1", "WATCHDOG_PID": str(os.getpid())}
    signs = VitalSigns(environ)
    assert {"HOME": "/root"} == environ
    child = os.fork()
    if not child:
        signs.work("")
        signs.report("a child")
        signs.stop("")
        os._exit(0)
    assert 0 == os.waitpid(child, 0)[1]
    assert [] == systemd.heard()
    assert not signs.is_ready


def test_a_status_is_one_line_of_limited_length(systemd):
    """The reason of an outage comes from a server; a line of it must not say READY=1."""
    signs = VitalSigns(systemd.environ)
    signs.report("FATAL: no\nREADY=1\n" + "x" * 1000)
    ((line,),) = systemd.heard()
    assert line.startswith("STATUS=FATAL: no READY=1 xxx")
    assert len(line) == LONGEST + len("STATUS=")


@pytest.mark.parametrize("address", ["/no/such/socket", "a\0b"])
def test_a_manager_that_does_not_listen_delays_and_stops_nothing(monkeypatch, address):
    monkeypatch.setattr(
        vital_signs, "seldom", vital_signs.log.RateLimited(vital_signs.seldom._logger)
    )
    with logged(monkeypatch, "json") as text:
        VitalSigns({"NOTIFY_SOCKET": address}).work("")
        assert "systemd.not_notified" == json.loads(text())["event"]


def test_a_full_socket_does_not_block(systemd, monkeypatch):
    signs = VitalSigns(systemd.environ | {"WATCHDOG_USEC": "1"})
    signal.alarm(20)
    try:
        with logged(monkeypatch, "json"):
            for _ in range(1000):  # more than net.unix.max_dgram_qlen
                signs.work("")
    finally:
        signal.alarm(0)
    assert signs.is_ready


def settings(port):
    return SimpleNamespace(metrics=SimpleNamespace(port=port))


def test_signs_are_noted_by_systemd_or_by_an_exporter():
    assert VitalSigns({"NOTIFY_SOCKET": "/s"}).are_noted(settings(None))
    assert VitalSigns({}).are_noted(settings(6387))
    assert not VitalSigns({}).are_noted(settings(None))


@pytest.fixture
def probed(monkeypatch):
    """Signs of this process, and a function that probes a path: returns the status and the text."""
    signs = VitalSigns({})
    monkeypatch.setattr(vital_signs, "_current", signs)
    return signs, lambda path: exporter._probed(path, 60.0)


def test_a_probe_hears_of_a_role_that_starts_works_and_stops(probed):
    signs, probe = probed
    assert ("200 OK", "503 Service Unavailable") == (probe("/alive")[0], probe("/ready")[0])
    signs.work("")
    assert ("200 OK", "200 OK") == (probe("/alive")[0], probe("/ready")[0])
    signs.stop("")
    assert ("200 OK", "503 Service Unavailable") == (probe("/alive")[0], probe("/ready")[0])


def test_a_probe_hears_of_a_silent_role(probed, monkeypatch):
    signs, probe = probed
    signs.work("")
    later = vital_signs.time.monotonic() + 61
    monkeypatch.setattr(vital_signs.time, "monotonic", lambda: later)
    assert ("503 Service Unavailable", "the last vital sign was 61 s ago") == probe("/alive")
    assert "503 Service Unavailable" == probe("/ready")[0]
    signs.work("")
    assert "200 OK" == probe("/alive")[0]


def test_a_process_without_signs_has_no_probes(monkeypatch):
    monkeypatch.setattr(vital_signs, "_current", None)
    assert "404 Not Found" == exporter._probed("/alive", 60.0)[0]
