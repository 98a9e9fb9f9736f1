"""Proofs of the faults of connections, redirects, bodies, ETags, errors, orders and sessions."""

import gzip
import http.client
import json

import pytest
import requests

from drivers.simulator.redfish_bmc.documents import MONITORS, ROOT, SESSIONS, TASKS

from .proofs import CLOCK, IMAGE, INSERT, cut, proves


@proves()
def closes_silently(bmc):
    connection = http.client.HTTPConnection(bmc.machine.address, bmc.machine.port, timeout=60)
    connection.request("GET", ROOT)
    answer = connection.getresponse()
    assert answer.read()
    assert "keep-alive" == answer.getheader("Connection")
    assert b"" == connection.sock.recv(1) if readable(connection.sock) else pytest.fail("open")


def readable(sock):
    sock.settimeout(0.2)
    try:
        return sock.recv(1, 2) == b""  # MSG_PEEK
    except TimeoutError:
        return False


@proves()
def answer_cut_short(bmc):
    with pytest.raises(requests.RequestException):
        bmc.get(ROOT)


@proves()
def order_lost(bmc):
    cut(bmc.reset, "On")
    assert "Off" == bmc.power()


@proves()
def answer_lost(bmc):
    cut(bmc.reset, "On")
    assert "On" == bmc.power()


@proves()
def read_lost_after_order(bmc):
    assert 204 == bmc.reset("On").status_code
    cut(bmc.get, bmc.system)
    assert "On" == bmc.power()


@proves({"times": 2})
def busy(bmc):
    answers = [bmc.get(bmc.system), bmc.reset("On"), bmc.reset("On")]
    assert [503, 503, 204] == [answer.status_code for answer in answers]
    assert "1" == answers[0].headers["Retry-After"]


def assert_redirect(answer, status, place):
    assert (status, place) == (answer.status_code, answer.headers.get("Location"))


@proves()
def redirect_to_slash(bmc):
    assert_redirect(bmc.get(f"{TASKS}?a=b"), 308, f"{TASKS}/?a=b")
    assert TASKS == bmc.read(f"{TASKS}/")["@odata.id"]


@proves()
def redirect_from_slash(bmc):
    assert_redirect(bmc.get(f"{TASKS}/"), 308, TASKS)
    assert 200 == bmc.get(TASKS).status_code


@proves()
def redirect_absolute(bmc):
    place = f"{bmc.machine.redfish_address}{TASKS}/"
    assert_redirect(bmc.get(TASKS), 302, place)
    assert 200 == bmc.get(place).status_code


@proves()
def redirect_orders(bmc):
    path = f"{bmc.system}/Actions/ComputerSystem.Reset"
    assert_redirect(bmc.reset("On"), 307, f"{path}/")
    assert "Off" == bmc.power()
    assert 204 == bmc.post(f"{path}/", {"ResetType": "On"}).status_code
    assert "On" == bmc.power()


@proves({"to": "https://198.51.100.7"})
def redirect_elsewhere(bmc):
    assert_redirect(bmc.get(TASKS), 307, f"https://198.51.100.7{TASKS}")


@proves()
def redirect_endless(bmc):
    assert_redirect(bmc.get(TASKS), 302, TASKS)


@proves()
def gzip_only(bmc):
    assert 406 == bmc.get(TASKS, **{"Accept-Encoding": "identity"}).status_code
    answer = bmc.get(TASKS, **{"Accept-Encoding": "gzip"})
    assert ("gzip", TASKS) == (answer.headers["Content-Encoding"], answer.json()["@odata.id"])


@proves()
def gzip_unasked(bmc):
    answer = bmc.get(TASKS, **{"Accept-Encoding": "identity"})
    assert ("gzip", TASKS) == (answer.headers.get("Content-Encoding"), answer.json()["@odata.id"])


@proves()
def gzip_bomb(bmc):
    connection = http.client.HTTPConnection(bmc.machine.address, bmc.machine.port, timeout=20)
    connection.request("GET", ROOT)
    packed = connection.getresponse().read()
    assert len(packed) < 1 << 20
    assert len(gzip.decompress(packed)) > 128 << 20


@proves()
def not_utf8(bmc):
    content = bmc.get(TASKS).content
    assert TASKS == json.loads(content.decode(errors="replace"))["@odata.id"]
    with pytest.raises(UnicodeDecodeError):
        content.decode()


@proves()
def control_characters(bmc):
    content = bmc.get(TASKS).content
    assert TASKS == json.loads(content, strict=False)["@odata.id"]
    with pytest.raises(ValueError, match="control character"):
        json.loads(content)


@proves()
def not_a_number(bmc):
    assert b'"Description":NaN' in bmc.get(TASKS).content


@proves()
def byte_order_mark(bmc):
    assert bmc.get(TASKS).content.startswith(b"\xef\xbb\xbf{")


@proves()
def links_absolute(bmc):
    here = bmc.machine.redfish_address
    assert f"{here}{bmc.system}" == bmc.members(f"{ROOT}/Systems")[0]
    assert bmc.update().headers["Location"].startswith(f"{here}{MONITORS}")


def assert_tagged(bmc, *, header):
    answer = bmc.get(bmc.system)
    tag = answer.json().get("@odata.etag")
    assert tag
    assert (tag if header else None) == answer.headers.get("ETag")
    change = {"AssetTag": "here"}
    assert 428 == bmc.patch(change).status_code
    assert 412 == bmc.patch(change, **{"If-Match": '"old"'}).status_code
    assert 204 == bmc.patch(change, **{"If-Match": tag}).status_code
    assert 412 == bmc.patch(change, **{"If-Match": tag}).status_code


@proves()
def if_match_demanded(bmc):
    assert_tagged(bmc, header=True)


@proves()
def etag_in_body(bmc):
    assert_tagged(bmc, header=False)


@proves({"form": "html"})
def odd_errors(bmc):
    answer = bmc.get(f"{ROOT}/Nothing")
    assert (404, "text/html") == (answer.status_code, answer.headers["Content-Type"])
    assert "There is no resource" in answer.text


@proves({"orders": ["power"], "status": 400})
def order_fails(bmc):
    assert 400 == bmc.reset("On").status_code
    assert "Off" == bmc.power()
    assert 204 == bmc.patch({"AssetTag": "here"}).status_code


@proves()
def order_fails_late(bmc):
    assert 500 == bmc.reset("On").status_code
    assert "On" == bmc.power()


@proves({"orders": ["insert"]})
def order_without_effect(bmc):
    assert 204 == bmc.post(INSERT, IMAGE).status_code
    assert not bmc.slot()["Inserted"]


def log_in(bmc):
    return requests.post(
        f"{bmc.machine.redfish_address}{SESSIONS}",
        json={"UserName": "admin", "Password": "admin"}, timeout=60,
    )  # fmt: skip


def status_with_token(bmc, token):
    headers = {"X-Auth-Token": token}
    url = f"{bmc.machine.redfish_address}{bmc.system}"
    return requests.get(url, headers=headers, timeout=60).status_code


@proves({"most": 2})
def session_limit(bmc):
    assert [201, 201, 503] == [log_in(bmc).status_code for _ in range(3)]


@proves({"seconds": 0.1})
def sessions_expire(bmc):
    token = log_in(bmc).headers["X-Auth-Token"]
    assert 200 == status_with_token(bmc, token)
    CLOCK.pass_time(0.15)
    assert 401 == status_with_token(bmc, token)


@proves()
def sessions_absent(bmc):
    assert 404 == log_in(bmc).status_code
    root = bmc.read(ROOT)
    assert ("SessionService" not in root, {}) == (True, root["Links"])
    assert 200 == bmc.get(bmc.system).status_code
