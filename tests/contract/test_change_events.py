"""GET /v1/events: changes of nodes and operations."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from app.api.request import long_polls
from app.events import change_events as service

from .conftest import fault

TYPES = ("node.created", "node.updated", "operation.state", "node.provision_state")


@pytest.fixture
def changed(api):
    """Two nodes, of which the first was changed and a verb was requested."""
    first_uuid, second_uuid = (api.node(name=name)["uuid"] for name in ("n1", "n2"))
    api("PATCH", "/v1/nodes/n1", [{"op": "add", "path": "/extra/a", "value": 1}])
    assert 202 == api("PUT", "/v1/nodes/n1/states/provision", {"target": "manage"}).status_code
    return first_uuid, second_uuid


def page(api, query=""):
    answer = api("GET", f"/v1/events{query}")
    assert 200 == answer.status_code, answer.json
    return answer.json


def types(api, query=""):
    return [event["type"] for event in page(api, query)["events"]]


def test_changes_are_events(api, changed):
    answer = page(api)
    node_events = [event for event in answer["events"] if event["node_uuid"] == changed[0]]
    assert ["node.created", "node.updated"] == [event["type"] for event in node_events][:2]
    moved = next(event for event in node_events if event["type"] == "node.provision_state")
    assert ("enroll", "verifying", "n1") == (moved["before"], moved["after"], moved["node_name"])
    (operation,) = api("GET", "/v1/nodes/n1/operations").json["operations"]
    requested = next(event for event in node_events if event["type"] == "operation.state")
    assert (operation["uuid"], "manage", None, "queued") == tuple(
        requested[name] for name in ("operation_uuid", "operation_kind", "before", "after")
    )
    numbers = [event["sequence"] for event in answer["events"]]
    assert [*range(1, len(numbers) + 1)] == numbers
    assert (1, len(numbers)) == (answer["first"], answer["last"])


def test_events_are_filtered(api, changed):
    everything = page(api)["events"]
    assert ["node.created"] == types(api, "?node=n2") == types(api, f"?node={changed[1].upper()}")
    assert 2 == len(types(api, "?type=node.created"))
    assert [] == types(api, "?type=node.deleted")
    assert everything[2:4] == page(api, "?after=2&limit=2")["events"]
    assert everything[-2:] == page(api, "?limit=2")["events"], "the newest, the oldest first"
    assert len(everything) == page(api, "?after=0&type=node.deleted")["last"]


def test_a_deleted_node_is_found_by_its_uuid(api, changed):
    assert 204 == api("DELETE", "/v1/nodes/n2").status_code
    assert ["node.created", "node.deleted"] == types(api, f"?node={changed[1]}")
    assert 404 == api("GET", "/v1/events?node=n2").status_code


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("type=node", "'node' is not one of ['node.created', 'node.updated',"),
        ("after=x", "after"), ("after=-1", "after"), ("limit=0", "Limit must be positive"),
        ("after=7", "after: there is no event 7 yet"), ("wait=1", "wait: needs `after`"), ("after=0&wait=1000000", "wait: at most"),
        ("colour=red", "colour"), ("node=a/b", "node"),
    ],
)  # fmt: skip
def test_bad_queries_are_refused(api, query, message):
    answer = api("GET", f"/v1/events?{query}")
    assert 400 == answer.status_code
    assert message in fault(answer)["faultstring"]


def test_a_request_waits_for_an_event(api, changed):
    last_sequence = page(api)["last"]
    began = time.monotonic()
    assert [] == types(api, f"?after={last_sequence}&wait=0.3")
    assert time.monotonic() - began >= 0.3
    timer = threading.Timer(0.3, lambda: api.node(name="n3"))
    timer.start()
    assert ["node.created"] == types(api, f"?after={last_sequence}&wait=30")
    assert time.monotonic() - began < 20
    timer.join()


def test_events_wake_the_requests_that_wait(api, changed, monkeypatch):
    """No request depends on its own checks: they are ten minutes apart here."""
    monkeypatch.setattr(long_polls, "LONGEST", 600.0)
    last_sequence, states = page(api)["last"], "/v1/nodes/n1/states?wait=120"
    with ThreadPoolExecutor() as pool:
        answers = [
            pool.submit(types, replace(api, client=api.client.application.test_client()), query)
            for query in (
                f"?after={last_sequence}&wait=120",
                f"?after={last_sequence}&wait=120&node=n1&type=node.maintenance",
            )
        ]
        idle = pool.submit(replace(api, client=api.client.application.test_client()), "GET", states)
        api.set(changed[1], maintenance=True)
        assert ["node.maintenance"] == answers[0].result(60)
        api.set(changed[0], provision_state="manageable", reservation=None)
        assert "manageable" == idle.result(60).json["provision_state"]
        api.set(changed[0], maintenance=True)
        assert ["node.maintenance"] == answers[1].result(60)


def test_a_page_that_is_there_is_read_once(api, changed, monkeypatch):
    reads, read = [], service.read
    monkeypatch.setattr(
        service, "read", lambda *args, **more: reads.append(args) or read(*args, **more)
    )
    assert 3 == len(types(api, "?after=0&wait=30&limit=3"))
    assert 1 == sum(args[3] == 3 for args in reads)
