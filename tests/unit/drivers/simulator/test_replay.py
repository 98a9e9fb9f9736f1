"""The replay of a recorded BMC over HTTP."""

import json
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
import requests

from drivers.core.recording.bundle import Answer, Recording

SYSTEM = "/redfish/v1/Systems/1"
SESSIONS = "/redfish/v1/SessionService/Sessions"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
RECORDING = Recording(
    [
        Answer("/redfish/v1/", 200, {"ETag": '"7"'}, body='{"Link": "https://bmc.example/redfish/v1/X"}'),
        Answer(SYSTEM, 200, body='{ "Id": "1", "PowerState": "Off" }'),
        Answer(f"{SYSTEM}?$skip=2", 200, body='{"page": 2}'),
        Answer("/redfish/v1/Chassis", 308, {"Location": "https://bmc.example/redfish/v1/Chassis/"}),
        Answer("/redfish/v1/Chassis/", 200, {"Content-Type": "text/plain"}, "latin-1", "caf\xe9"),
        Answer("/redfish/v1/Chassis/a%20b", 200, body="{}"),
        Answer("/redfish/v1/Bad", 503, {"Retry-After": "5"}, body="<p>busy</p>"),
        Answer(SESSIONS, 200, body="{}"),
    ],
    SYSTEM,
    ["/redfish/v1/Managers"],
)  # fmt: skip


@contextmanager
def program(path):
    command = [sys.executable, "-m", "drivers.simulator", "--replay", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGTERM)
        assert 0 == process.wait(60)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "bmc.json"
    path.write_text(RECORDING.dump())
    with program(path) as printed:
        (machine,) = printed["machines"]
        assert {"redfish_address": printed["url"], "system_id": SYSTEM} == machine
        yield printed["url"]


def send(url, method, path, **options):
    return requests.request(method, url + path, timeout=5, allow_redirects=False, **options)


def test_reads_are_answered_as_recorded(url):
    root = send(url, "GET", "/redfish/v1/")
    assert (200, '"7"', {"Link": f"{url}/redfish/v1/X"}) == (
        root.status_code,
        root.headers["ETag"],
        root.json(),
    )
    assert b'{ "Id": "1", "PowerState": "Off" }' == send(url, "GET", SYSTEM).content
    for query in ("$skip=2", "%24skip=2"):
        assert {"page": 2} == send(url, "GET", f"{SYSTEM}?{query}").json()
    bad = send(url, "GET", "/redfish/v1/Bad")
    assert (503, "5", b"<p>busy</p>") == (bad.status_code, bad.headers["Retry-After"], bad.content)
    assert 200 == send(url, "GET", "/redfish/v1/Chassis/a%20b").status_code


def test_a_recorded_redirect_leads_to_the_replay(url):
    redirect = send(url, "GET", "/redfish/v1/Chassis")
    assert (308, f"{url}/redfish/v1/Chassis/") == (
        redirect.status_code,
        redirect.headers["Location"],
    )
    target = send(url, "GET", "/redfish/v1/Chassis/")
    assert (b"caf\xe9", "text/plain") == (target.content, target.headers["Content-Type"])


def test_a_slash_more_or_less_leads_to_the_same_document(url):
    for path in ("/redfish/v1", f"{SYSTEM}/"):
        assert 200 == send(url, "GET", path).status_code


@pytest.mark.parametrize(
    ("path", "words"),
    [("/redfish/v1/Managers", "is left out of the recording"), ("/redfish/v1/Nothing", "is not in the recording")],
)  # fmt: skip
def test_a_document_that_was_not_recorded_is_404_with_the_reason(url, path, words):
    answer = send(url, "GET", path)
    assert 404 == answer.status_code
    assert words in answer.json()["error"]["message"]


def test_any_login_is_accepted(url):
    answer = send(url, "POST", SESSIONS, json={"UserName": "a", "Password": "b"})
    assert (201, True) == (answer.status_code, bool(answer.headers["X-Auth-Token"]))
    assert 204 == send(url, "DELETE", answer.headers["Location"]).status_code


def test_the_power_state_follows_orders(url):
    def state():
        return send(url, "GET", SYSTEM).json()

    for kind, expected in (
        ("On", "On"),
        ("ForceOff", "Off"),
        ("ForceRestart", "On"),
        ("GracefulShutdown", "Off"),
    ):
        assert 204 == send(url, "POST", RESET, json={"ResetType": kind}).status_code
        assert {"Id": "1", "PowerState": expected} == state()
    for body in ({"ResetType": "Explode"}, {}):
        assert 400 == send(url, "POST", RESET, json=body).status_code
    assert 400 == send(url, "POST", RESET, data="{").status_code


@pytest.mark.parametrize(
    ("method", "path"),
    [("PATCH", SYSTEM), ("DELETE", SYSTEM), ("PUT", SYSTEM), ("POST", "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate"), ("POST", "/redfish/v1/Nothing/Actions/ComputerSystem.Reset")],
)  # fmt: skip
def test_other_orders_are_refused_with_the_reason(url, method, path):
    answer = send(url, method, path, json={})
    assert (405, "GET, HEAD") == (answer.status_code, answer.headers["Allow"])
    assert "replay of a recording" in answer.json()["error"]["message"]


def test_a_wrong_recording_ends_the_program_with_the_reason(tmp_path):
    path = tmp_path / "bmc.json"
    path.write_text("{}")
    command = [sys.executable, "-m", "drivers.simulator", "--replay", str(path)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert 1 == ended.returncode
    assert f"{path}: format: 'ingot-bmc-recording' is expected\n" == ended.stderr
