"""Redirects of BMCs, followed by both readers."""

import ssl

import pytest

from drivers.core.errors import Unconfirmed, Unexpected
from drivers.redfish.transport import peer
from tests.support.rude_bmc import RESET, SESSIONS, SYSTEM, rude_bmc
from tests.support.tls import certificate

from .conftest import both, by_sushy, node, only


def redirecting(status, location):
    """Redirect each path without a slash at its end; {path} is the path, {url} the address."""

    def rule(handler):
        if handler.path.endswith("/"):
            return None
        url = f"http://{handler.headers['Host']}"
        return status, {"Location": location.format(path=handler.path, url=url)}, b""

    return rule


@both
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("location", ["{path}/", "{url}{path}/", "//127.0.0.1:{path}/", "1/"])
def test_redirects_within_the_address_are_followed(bmc, read, status, location):
    place = bmc.url.removeprefix("http://")
    location = location.replace("//127.0.0.1:", f"//{place}").replace(
        "{url}", "HTTP://" + place.upper()
    )
    bmc.rule = (
        only(SYSTEM, (status, {"Location": f"{SYSTEM[:-1]}{location}"}, b""))
        if location == "x"
        else redirecting(status, location)
    )
    assert "power on" == read(node(bmc))


@both
def test_redirects_to_the_path_without_a_slash_are_followed(bmc, read):
    slash = f"{SYSTEM}/"
    bmc.rule = lambda handler: (308, {"Location": SYSTEM}, b"") if handler.path == slash else None
    assert "power on" == read(node(bmc, redfish_system_id=slash))
    assert ("GET", SYSTEM) in bmc.requests()


@both
def test_the_body_of_a_redirect_does_not_matter(bmc, read):
    headers = {"Location": f"{SYSTEM}/", "Content-Encoding": "br"}
    bmc.rule = lambda handler: (308, headers, b"\xff") if handler.path == SYSTEM else None
    assert "power on" == read(node(bmc))


@both
@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{own}", "u:p@127.0.0.1:{port}"])
def test_a_redirect_to_another_address_is_refused_with_both(bmc, other, read, host):
    place = host.format(port=other.url.rpartition(":")[2], own=bmc.url.rpartition(":")[2])
    bmc.rule = only(SYSTEM, (307, {"Location": f"http://{place}{SYSTEM}"}, b""))
    with pytest.raises(Unexpected) as raised:
        read(node(bmc))
    assert bmc.url in str(raised.value)
    assert place in str(raised.value)
    assert [] == other.request_log


@both
@pytest.mark.parametrize("ways", [{SYSTEM: SYSTEM}, {SYSTEM: f"{SYSTEM}/a", f"{SYSTEM}/a": SYSTEM}])
def test_a_circle_of_redirects_is_named(bmc, read, ways):
    bmc.rule = lambda handler: (
        (302, {"Location": ways[handler.path]}, b"") if handler.path in ways else None
    )
    with pytest.raises(Unexpected, match=r"in a circle: .* -> "):
        read(node(bmc))
    assert 10 > len(bmc.request_log)


@both
def test_redirects_without_end_are_given_up(bmc, read):
    bmc.rule = lambda handler: (
        (302, {"Location": f"{handler.path}x"}, b"") if handler.path.startswith(SYSTEM) else None
    )
    with pytest.raises(Unexpected, match="redirects too often"):
        read(node(bmc))
    assert 10 > len(bmc.request_log)


@both
@pytest.mark.parametrize("answer", [(304, {}, b""), (302, {}, b""), (300, {"Location": "/x"}, b"")])
def test_a_redirect_without_an_address_is_no_document(bmc, read, answer):
    bmc.rule = only(SYSTEM, answer)
    with pytest.raises(Unexpected, match=f"answered {answer[0]}"):
        read(node(bmc))


@both
def test_a_redirect_from_http_to_https_of_the_same_host_is_followed_and_never_back(
    tmp_path, bmc, read, monkeypatch
):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    paths = certificate(tmp_path, "bmc")
    context.load_cert_chain(*paths)
    with rude_bmc(tls=context) as secure:
        ports = {
            server.url.partition(":")[0]: int(server.url.rpartition(":")[2])
            for server in (bmc, secure)
        }
        monkeypatch.setattr(peer, "PORTS", ports)
        peer._place.cache_clear()
        bmc.rule = lambda handler: (301, {"Location": secure.url + handler.path}, b"")
        trusting = {"redfish_verify_ca": str(paths[0])}
        assert "power on" == read(node(bmc, **trusting))
        secure.rule, bmc.rule = (
            lambda handler: (301, {"Location": bmc.url + handler.path}, b""),
            None,
        )
        bmc.request_log.clear()
        with pytest.raises(Unexpected, match="to another address"):
            read(node(secure, **trusting))
        assert [] == bmc.request_log
    peer._place.cache_clear()


def test_a_login_is_redirected_with_its_body(bmc):
    for status in (301, 302, 307, 308):
        bmc.rule = redirecting(status, "{path}/")
        bmc.request_log.clear()
        assert "power on" == by_sushy(node(bmc, redfish_auth_type="session"))
        assert ("POST", f"{SESSIONS}/") in bmc.requests("POST")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_an_order_is_redirected_with_method_and_body(bmc, status):
    bmc.rule = (
        only(RESET, (status, {"Location": f"{RESET}/"}, b""), "POST")
        if status != 301
        else redirecting(301, "{path}/")
    )
    rule = bmc.rule
    bmc.rule = lambda handler: None if handler.path.endswith("/") else rule(handler)
    it = node(bmc)
    it.driver.power.order(it, "power off")
    assert ("POST", f"{RESET}/", {"ResetType": "ForceOff"}) == bmc.orders()[-1]
    assert 2 == len(bmc.orders())


def test_303_leads_to_the_result_of_an_order(bmc):
    bmc.rule = only(RESET, (303, {"Location": SYSTEM}, b""), "POST")
    it = node(bmc)
    it.driver.power.order(it, "power off")
    assert [("POST", RESET)] == bmc.requests("POST")
    assert ("GET", SYSTEM) == bmc.requests()[-1]
    bmc.rule = only(RESET, (303, {"Location": "/gone"}, b""), "POST")
    with pytest.raises(Unconfirmed, match=f"^POST {RESET} was ordered, not confirmed"):
        it.driver.power.order(it, "power off")


def test_302_of_an_order_to_another_resource_leaves_the_order_unconfirmed(bmc):
    bmc.rule = only(RESET, (302, {"Location": f"{SYSTEM}/other"}, b""), "POST")
    it = node(bmc)
    with pytest.raises(Unconfirmed, match="was ordered, not confirmed"):
        it.driver.power.order(it, "power off")
    assert 1 == len(bmc.orders())


def test_an_order_that_leads_to_another_address_is_not_given(bmc, other):
    bmc.rule = only(RESET, (308, {"Location": f"{other.url}{RESET}"}, b""), "POST")
    it = node(bmc)
    with pytest.raises(Unexpected, match="was not ordered") as raised:
        it.driver.power.order(it, "power off")
    assert not isinstance(raised.value, Unconfirmed)
    assert [] == other.request_log
