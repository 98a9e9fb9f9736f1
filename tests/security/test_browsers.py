"""Pages of other sites: they cannot use an operator's browser against the API."""

import re
from dataclasses import replace

import pytest

from app.server.application import PAGES, create_app
from tests.contract.conftest import fault


@pytest.fixture
def with_settings(api):
    """Function: the API with other settings of a group."""

    def make(group, **changed):
        settings = api.runtime.settings
        of_group = replace(getattr(settings, group), **changed)
        runtime = replace(api.runtime, settings=replace(settings, **{group: of_group}))
        return replace(api, client=create_app(runtime).test_client(), runtime=runtime)

    return make


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:81", "http://["]
)
def test_a_form_of_another_site_changes_nothing(api, origin):
    node = api.node()["uuid"]
    form = {"Origin": origin, "Content-Type": "application/x-www-form-urlencoded"}
    path = f"/v1/nodes/{node}/vendor_passthru?method=bmc_reset"
    refused = api("POST", path, None, **form)
    assert 403 == refused.status_code
    assert f"Origin: pages of {origin}" in fault(refused)["faultstring"]
    for method, below in (("PUT", "/maintenance"), ("DELETE", ""), ("PATCH", "")):
        assert 403 == api(method, f"/v1/nodes/{node}{below}", None, **form).status_code
    answer = api("GET", f"/v1/nodes/{node}", None, Origin=origin)
    assert (200, False) == (answer.status_code, answer.json["maintenance"])


@pytest.mark.parametrize(
    "origin", ["http://localhost", "HTTPS://LOCALHOST", "https://api.example:1"]
)
def test_the_pages_of_the_service_may_write(with_settings, origin):
    api = with_settings("api", public_endpoint="https://api.example:1/baremetal")
    assert 201 == api("POST", "/v1/nodes", {"driver": "fake-hardware"}, Origin=origin).status_code


def test_a_page_of_the_services_name_without_tls_is_another_site(with_settings):
    """A stranger on the way can serve it, and browsers send it Basic credentials."""
    api = with_settings("api", public_endpoint="https://api.example")
    node = {"driver": "fake-hardware"}
    for scheme, status in (("http", 403), ("https", 201)):
        headers = {"Origin": f"{scheme}://api.example", "Host": "api.example"}
        assert status == api("POST", "/v1/nodes", node, **headers).status_code


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("rebind.evil.example", 400), ("rebind.evil.example:6385", 400), ("localhost.evil.example", 400),
        ("x]", 400), ("localhost:99999999", 400),
        ("localhost:6385", 200), ("api.localhost", 200), ("127.0.0.1:6385", 200), ("[::1]:6385", 200),
        ("10.1.2.3:6385", 200), ("rack.example", 200), ("api.example", 200), ("agents.example:80", 200),
    ],
)  # fmt: skip
def test_without_authentication_only_names_of_the_service_are_answered(with_settings, host, status):
    settings = with_settings(
        "api", allowed_hosts=("Rack.example",), public_endpoint="https://api.example"
    ).runtime.settings
    api = with_settings("deploy", external_callback_url="http://agents.example")
    runtime = replace(api.runtime, settings=replace(settings, deploy=api.runtime.settings.deploy))
    api = replace(api, client=create_app(runtime).test_client())
    answer = api("GET", "/v1/nodes", None, Host=host)
    assert status == answer.status_code
    if status == 400:
        assert "allowed_hosts" in fault(answer)["faultstring"]


def test_with_authentication_any_name_is_answered(with_settings, tmp_path):
    (tmp_path / "htpasswd").touch()
    api = with_settings(
        "default", auth_strategy="http_basic", http_basic_auth_user_file=str(tmp_path / "htpasswd")
    )
    assert 200 == api("GET", "/healthcheck", None, Host="ingot.example").status_code


EVIL = "evil.example"


def test_the_host_of_a_request_chooses_no_link_if_the_public_endpoint_is_set(guarded):
    ask = guarded.make(api={"public_endpoint": "https://ingot.example/baremetal"})
    node = guarded.node
    port = {"node_uuid": node, "address": "02:00:00:00:00:01"}
    created = ask("system-admin", "POST", "/v1/ports", port, Host=EVIL)
    assert 201 == created.status_code
    answers = [created]
    for rule in guarded.api.client.application.url_map.iter_rules():
        if "GET" in rule.methods and not rule.rule.endswith("/stream"):
            path = re.sub("<ident>|<[^>]*node[^>]*>", node, rule.rule)
            answers.append(ask("system-admin", "GET", f"{path}?limit=1", Host=EVIL))
            answers.append(ask("system-admin", "GET", path, Host=EVIL))
    assert 60 < sum(answer.status_code == 200 for answer in answers)
    assert 20 < sum("https://ingot.example/baremetal/" in answer.text for answer in answers)
    assert [] == [
        answer.request.path for answer in answers if EVIL in f"{answer.headers}{answer.text}"
    ]


def test_the_host_of_a_request_enters_no_answer_to_others(guarded):
    node, caller = guarded.node, "system-admin"
    for path in (f"/v1/nodes/{node}", "/v1/nodes?limit=1", "/v1/events", "/v1"):
        guarded.ask(caller, "GET", path, Host=EVIL)
    power = {"target": "power on"}
    changed = guarded.ask(caller, "PUT", f"/v1/nodes/{node}/states/power", power, Host=EVIL)
    assert 202 == changed.status_code, changed.text
    assert EVIL in changed.headers["Location"]
    for path in ("", "/states", "/history", "/why"):
        answer = guarded.ask(caller, "GET", f"/v1/nodes/{node}{path}")
        assert (200, False) == (answer.status_code, EVIL in f"{answer.headers}{answer.text}")
    for path in ("/v1", "/v1/nodes?limit=1", "/v1/events", "/v1/operations", "/v1/audit"):
        answer = guarded.ask(caller, "GET", path)
        assert (200, False) == (answer.status_code, EVIL in f"{answer.headers}{answer.text}"), path


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/docs", 200), ("GET", "/v1/nodes", 200), ("GET", "/nonesuch", 404),
        ("GET", "/v1/lookup", 400), ("OPTIONS", "/v1/nodes", 200),
    ],
)  # fmt: skip
def test_every_answer_has_the_headers_that_restrict_browsers(api, method, path, status):
    answer = api(method, path)
    assert status == answer.status_code
    assert "nosniff" == answer.headers["X-Content-Type-Options"]
    assert "DENY" == answer.headers["X-Frame-Options"]
    policy = dict(
        word.split(None, 1) for word in answer.headers["Content-Security-Policy"].split("; ")
    )
    assert {"'none'"} == {policy[name] for name in ("default-src", "frame-ancestors", "base-uri")}
    assert "unsafe" not in str(policy)


def test_accepted_heartbeats_have_these_headers(api):
    node = api.node(provision_state="clean wait")["uuid"]
    lookup = api("GET", f"/v1/lookup?node_uuid={node}").json
    sign = {
        "callback_url": "https://192.0.2.1:9999",
        "agent_token": lookup["config"]["agent_token"],
        "agent_version": "9",
    }
    answer = api("POST", f"/v1/heartbeat/{node}", sign)
    assert 202 == answer.status_code
    assert "nosniff" == answer.headers["X-Content-Type-Options"]


def test_the_page_has_no_inline_code_and_loads_its_own_files_only(api):
    page = api("GET", "/docs").text
    assert not re.search(r"<style|<script(?! src=)|\son\w+=|\sstyle=|javascript:", page)
    paths = re.findall(r'(?:src|href)="([^"?]+)(?:\?v=[0-9a-f]{16})?"', page)
    assert {"docs/page.js", "docs/page.css", "openapi.json"} == set(paths)
    kinds = {
        path: api("GET", path).content_type.partition(";")[0]
        for path in PAGES
        if path.startswith("/docs")
    }
    assert {
        "/docs": "text/html",
        "/docs/page.css": "text/css",
        "/docs/page.js": "text/javascript",
    } == kinds
    script = api("GET", "/docs/page.js").text
    assert "innerHTML" not in script
    assert "eval(" not in script
