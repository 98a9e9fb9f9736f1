"""A boot medium is asked for before a machine is told to boot from it."""

import pytest

from drivers.boot import fetchable
from drivers.core.errors import BadImage
from tests.support.ports import free_port
from tests.support.web import Handler, serving
from tests.unit.drivers.machines import target


class Media(Handler):
    """`answers`: method -> status; `asked`: methods in their order."""

    def do_HEAD(self):
        self.tell("HEAD")

    def do_GET(self):
        self.tell("GET")

    def tell(self, method):
        self.server.asked.append(method)
        self.send_response(self.server.answers[method])
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def server():
    with serving(Media, answers={"HEAD": 200, "GET": 200}, asked=[]) as found:
        yield found


def warning(url, **fields):
    """What is reported, if anything is."""
    it = target(**fields)
    fetchable.check(it, url)
    return it.reports.get("boot_warning", "nothing")


def test_a_medium_that_is_there_is_asked_for_once(server):
    assert "nothing" == warning(f"{server.url}/boot.iso")
    assert ["HEAD"] == server.asked


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_medium_that_a_server_does_not_give_fails_with_its_answer_and_without_secrets(
    server, status
):
    server.answers.update(HEAD=status, GET=status)
    url = server.url.replace("//", "//user:secret@")
    with pytest.raises(BadImage, match=rf"/boot\.iso cannot be fetched: .* {status} ") as error:
        warning(f"{url}/boot.iso?signature=secret")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("status", [403, 404, 405, 501])
def test_a_server_that_only_answers_GET_has_the_medium(server, status):
    server.answers.update(HEAD=status, GET=206)
    assert "nothing" == warning(f"{server.url}/boot.iso")
    assert ["HEAD", "GET"] == server.asked


def test_a_server_in_trouble_is_a_warning(server):
    server.answers.update(HEAD=503, GET=503)
    assert "could not be checked: the server answered 503" in warning(f"{server.url}/boot.iso")


def test_a_server_that_the_conductor_cannot_reach_is_a_warning_that_says_why():
    url = f"http://127.0.0.1:{free_port()}/boot.iso?signature=secret"
    told = warning(url)
    assert told.endswith("/boot.iso could not be reached from the conductor: Connection refused")


def test_a_silent_server_holds_up_the_step_for_seconds_only(server, monkeypatch):
    monkeypatch.setattr(fetchable, "TIMEOUT", 0.2)
    monkeypatch.setattr(Media, "tell", lambda self, _method: self.rfile.read(1))
    assert "could not be reached from the conductor" in warning(f"{server.url}/boot.iso")


def test_a_warning_is_withdrawn_when_the_medium_is_there(server):
    known = {"boot_warning": "it was not there"}
    assert warning(f"{server.url}/boot.iso", driver_internal_info=known) is None


@pytest.mark.parametrize("url", ["file:///boot.iso", "nfs://server/boot.iso", "smb://server/x"])
def test_what_is_no_http_is_left_to_those_who_fetch_it(url):
    assert "nothing" == warning(url)
