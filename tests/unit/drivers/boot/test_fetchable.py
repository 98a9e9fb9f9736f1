"""Check of a boot medium's URL before a machine boots from it."""

import pytest

from drivers.boot import fetchable
from drivers.core.errors import BadImage
from tests.support.ports import free_port
from tests.support.web import Handler, serving
from tests.unit.drivers.machines import target


class Media(Handler):
    """Server of one medium. `answers`: method -> status; `request_log`: requested methods, in order."""

    def do_HEAD(self):
        self.tell("HEAD")

    def do_GET(self):
        self.tell("GET")

    def tell(self, method):
        self.server.request_log.append(method)
        self.send_response(self.server.answers[method])
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def server():
    with serving(Media, answers={"HEAD": 200, "GET": 200}, request_log=[]) as media_server:
        yield media_server


def warning(url, **fields):
    """Check a URL, and return the reported warning, if any."""
    it = target(**fields)
    fetchable.check(it, url)
    return it.reports.get("boot_warning", "nothing")


def test_an_available_medium_is_requested_once(server):
    assert "nothing" == warning(f"{server.url}/boot.iso")
    assert ["HEAD"] == server.request_log


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refused_medium_fails_with_the_servers_answer_and_without_secrets(server, status):
    server.answers.update(HEAD=status, GET=status)
    url = server.url.replace("//", "//user:secret@")
    with pytest.raises(BadImage, match=rf"/boot\.iso cannot be fetched: .* {status} ") as error:
        warning(f"{url}/boot.iso?signature=secret")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("status", [403, 404, 405, 501])
def test_a_medium_of_a_server_that_answers_only_GET_is_available(server, status):
    server.answers.update(HEAD=status, GET=206)
    assert "nothing" == warning(f"{server.url}/boot.iso")
    assert ["HEAD", "GET"] == server.request_log


def test_a_server_error_is_a_warning(server):
    server.answers.update(HEAD=503, GET=503)
    assert "could not be checked: the server answered 503" in warning(f"{server.url}/boot.iso")


def test_an_unreachable_server_is_a_warning_with_the_cause():
    url = f"http://127.0.0.1:{free_port()}/boot.iso?signature=secret"
    warned = warning(url)
    assert warned.endswith("/boot.iso cannot be fetched: Connection refused")


def test_a_silent_server_delays_the_step_by_seconds_only(server, monkeypatch):
    monkeypatch.setattr(fetchable, "TIMEOUT", 0.2)
    monkeypatch.setattr(Media, "tell", lambda self, _method: self.rfile.read(1))
    assert "could not be checked by the conductor" in warning(f"{server.url}/boot.iso")


def test_a_warning_is_cleared_when_the_medium_is_available(server):
    internal_info = {"boot_warning": "it was not there"}
    assert warning(f"{server.url}/boot.iso", driver_internal_info=internal_info) is None


@pytest.mark.parametrize("url", ["file:///boot.iso", "nfs://server/boot.iso", "smb://server/x"])
def test_a_url_of_another_scheme_is_not_checked(url):
    assert "nothing" == warning(url)
