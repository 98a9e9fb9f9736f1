"""Metrics of requests: by the template of the path, from closed sets of labels."""

import pytest

from app.api.transport import measuring
from app.main import create_app
from tests.support.recorded import recording_into

from .test_agents import beat, look_up

MAC = "52:54:00:00:00:01"


@pytest.fixture
def counts(api, tmp_path):
    """Number of requests by (method, route, status), of an application with metrics."""
    with recording_into(tmp_path) as samples:
        api.client = create_app(api.runtime).test_client()

        def read():
            name = "ingot_api_request_seconds_count"
            return {
                text.removeprefix(name): value
                for text, value in samples().items()
                if text.startswith(name)
            }

        yield read


def series(method, route, status):
    return f'{{method="{method}",route="{route}",status="{status}"}}'


def test_requests_are_counted_by_route_method_and_status(api, counts):
    node = api.node(name="n1")
    api("GET", "/v1/nodes/no-such-node")
    api("GET", "/nodes/n1/")
    api("PUT", f"/v1/nodes/{node['uuid']}/states/provision?wait=x", {"target": "manage"})
    assert {
        series("POST", "/v1/nodes", "2xx"): 1,
        series("GET", "/v1/nodes/<ident>", "2xx"): 2,
        series("GET", "/v1/nodes/<ident>", "4xx"): 1,
        series("PUT", "/v1/nodes/<ident>/states/provision?wait", "4xx"): 1,
    } == counts()


def test_a_hostile_client_creates_no_time_series(api, counts):
    for number in range(20):
        api("GET", f"/v1/nothing-{number}")
        api(f"VERB{number}", "/v1/nodes")
        api("GET", f"/v1/nodes/{number}?fields=nothing-{number}")
    assert {
        series("GET", "unrouted", "4xx"): 20,
        series("other", "unrouted", "4xx"): 20,
        series("GET", "/v1/nodes/<ident>", "4xx"): 20,
    } == counts()


@pytest.mark.parametrize("kind", ["sqlite"])
def test_heartbeats_that_flask_does_not_see_are_counted(api, counts, monkeypatch):
    node = api.node(name="n1", provision_state="clean wait", target_provision_state="available")
    api("POST", "/v1/ports", {"node_uuid": node["uuid"], "address": MAC})
    token = look_up(api).json["config"]["agent_token"]
    monkeypatch.setattr(measuring, "note_route", lambda _request: None)
    for _ in range(3):  # the first one goes to the route
        assert 202 == beat(api, node, agent_token=token).status_code
    assert 2 == counts()[series("POST", "/v1/heartbeat/<ident>", "2xx")]


def test_an_application_without_metrics_has_no_middleware():
    inner = object()
    assert measuring.middleware(inner) is inner
