"""The state of the service: parts, conductors and their load, the ring, takeovers."""

import socket
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

import pytest
from sqlalchemy import update

from app.errors import Unavailable
from app.models import BeatLease, Conductor, Node, Operation, OperationStep
from app.reports import health
from app.server.application import create_app
from tests.contract.conftest import Api
from tests.support.fleet import until

START = datetime(2026, 1, 1, 12)
LATER = datetime(2999, 1, 1)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request):
    return request.param


def service(api):
    answer = api("GET", "/v1/service")
    assert 200 == answer.status_code, answer.text
    return answer.json


def parts(answer):
    return {part["part"]: part["reason"] for part in answer["parts"]}


def add(api, *rows):
    with api.runtime.transaction() as session:
        session.add_all(rows)


def hold(api, node, conductor, **columns):
    """Add an operation that holds a node for a conductor."""
    with api.runtime.transaction() as session:
        row = session.query(Node).filter_by(uuid=node["uuid"]).one()
        operation = Operation(
            uuid=str(uuid4()),
            node_id=row.id,
            kind="clean",
            created_at=START,
            **{"admitted_at": START} | columns,
        )
        session.add(operation)
        session.flush()
        row.operation_id, row.reservation = operation.id, conductor
        return operation.id, operation.uuid


def test_the_ring_tells_who_serves_the_nodes_of_a_driver(api):
    fake = {"fake-hardware": {}}
    for name, group in (("rack-2", ""), ("edge-1", "edge")):
        add(api, Conductor(hostname=name, incarnation=name, interfaces=fake, conductor_group=group))
    for group in ("", "", "", "", "edge", "cold"):
        api.node(conductor_group=group)
    api.node(driver="redfish")

    answer = service(api)
    assert {
        ("fake-hardware", ""): (4, ["rack-1", "rack-2"]),
        ("fake-hardware", "cold"): (1, []),
        ("fake-hardware", "edge"): (1, ["edge-1"]),
        ("redfish", ""): (1, ["rack-1"]),
    } == {
        (entry["driver"], entry["conductor_group"]): (entry["nodes"], entry["conductors"])
        for entry in answer["ring"]
    }
    assert {"rack-1": 3, "rack-2": 2, "edge-1": 1} == {
        conductor["hostname"]: conductor["nodes"] for conductor in answer["conductors"]
    }


def test_conductors_show_what_they_hold_and_whether_they_live(api):
    add(
        api,
        Conductor(hostname="dead", incarnation="2", heartbeat_at=START),
        Conductor(hostname="stopped", incarnation="3", online=False),
    )
    for state, conductor in (("running", "rack-1"), ("running", "rack-1"), ("waiting", "dead")):
        hold(api, api.node(), conductor, state=state)
    hold(api, api.node(), "rack-1", state="queued", sent_to="1", sent_at=START)
    hold(api, api.node(), "rack-1", state="queued", admitted_at=None)  # waits for a slot

    conductors = {conductor["hostname"]: conductor for conductor in service(api)["conductors"]}
    assert {"rack-1": "alive", "dead": "lost", "stopped": "stopped"} == {
        name: conductor["state"] for name, conductor in conductors.items()
    }
    assert {"queued": 1, "running": 2, "waiting": 0, "held": 0} == conductors["rack-1"]["holds"]
    assert 1 == conductors["dead"]["holds"]["waiting"]
    assert 3600 < conductors["rack-1"]["oldest_message_seconds"]
    assert conductors["dead"]["oldest_message_seconds"] is None
    assert 3600 < conductors["dead"]["heartbeat_seconds"]


def test_steps_that_a_conductor_has_taken_over_are_listed_the_newest_first(api):
    for name, deaths in (("first", 1), ("calm", 0), ("last", 2)):
        key, _ = hold(api, api.node(name=name), "rack-1", state="running")
        step = OperationStep(
            operation_id=key, position=0, interface="deploy", name="write_image", source="frame",
            deaths=deaths, conductor="rack-1", state="running", started_at=START,
        )  # fmt: skip
        add(api, step)
    assert [("last", "deploy.write_image", 2), ("first", "deploy.write_image", 1)] == [
        (takeover["node_name"], takeover["step"], takeover["times"])
        for takeover in service(api)["takeovers"]
    ]


def test_a_service_without_conductors_and_beat_says_so(api):
    with api.runtime.transaction() as session:
        session.execute(update(Conductor).values(heartbeat_at=START))
    assert {
        "database": "OK",
        "conductors": "no conductor is alive",
        "beat": "no beat leads",
        "periodic tasks": "OK",
        "messages": "OK",
        "operations": "OK",
        "broker": "unknown",
    } == parts(service(api))


@pytest.mark.parametrize("port_of", ["file server", "exporter"])
def test_a_server_of_files_or_metrics_that_hangs_is_named(api, port_of):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings = api.runtime.settings
        deploy, metrics = settings.deploy, settings.metrics
        if port_of == "exporter":
            metrics = replace(metrics, port=port)
        else:
            deploy = replace(deploy, http_url=f"http://127.0.0.1:{port}")
        settings = replace(settings, deploy=deploy, metrics=metrics)
        runtime = replace(api.runtime, settings=settings, cache={})
        client = Api(create_app(runtime).test_client(), runtime, [])
        until(lambda: parts(service(client)).get(port_of) == health.HANGS, "the silence")
        answer = client("GET", "/healthcheck?detailed=true")
        assert 503 == answer.status_code
        assert health.HANGS in answer.text


@pytest.mark.parametrize("reached", [True, False])
def test_the_lengths_of_queues_need_the_broker_and_the_answer_does_not(api, reached):
    def backlog(name):
        if not reached:
            raise Unavailable("the broker is out of reach: refused")
        return {"rack-1": 7}[name]

    add(api, BeatLease(id=1, holder="beat", until=LATER))
    runtime = replace(
        api.runtime,
        backlog=backlog,
        settings=replace(
            api.runtime.settings,
            api=replace(api.runtime.settings.api, flower_url="http://flower.example"),
        ),
    )
    answer = service(Api(create_app(runtime).test_client(), runtime, []))
    assert ("OK" if reached else "it does not answer") == parts(answer)["broker"]
    assert (7 if reached else None) == answer["conductors"][0]["messages"]
    assert "http://flower.example" == answer["flower_url"]
    assert "OK" == parts(answer)["beat"]


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/nodes", "/v1/nodes/detail", "/v1/nodes/missing", "/v1/no-such-path"]
)
def test_no_cache_keeps_an_answer(api, path):
    answer = api("GET", path)
    assert ["no-store"] == answer.headers.getlist("Cache-Control")
    varies = ", ".join(answer.headers.getlist("Vary")).split(", ")
    assert {"X-Auth-Token", "Authorization", "Cookie", "X-Project-Id"} <= {*varies}
    assert "X-OpenStack-Ironic-API-Version" in varies


def test_files_of_the_page_are_revalidated(api):
    answer = api("GET", "/ui")
    assert ["no-cache"] == answer.headers.getlist("Cache-Control")


def test_the_settings_are_shown_with_their_origin_and_without_secrets(api):
    answer = api("GET", "/v1/service/settings")
    assert 200 == answer.status_code, answer.text
    assert answer.json["release"]
    settings = {(setting["group"], setting["name"]): setting for setting in answer.json["settings"]}
    strategy = settings["DEFAULT", "auth_strategy"]
    assert ("noauth", "default") == (strategy["value"], strategy["origin"])
    secret = "letmein-7f3a"
    changed = replace(
        api.runtime.settings,
        oidc=replace(api.runtime.settings.oidc, client_secret=secret),
        broker=replace(api.runtime.settings.broker, url=f"redis://:{secret}@127.0.0.1:1/0"),
    )
    other = Api(create_app(replace(api.runtime, settings=changed)).test_client(), api.runtime, [])
    text = other("GET", "/v1/service/settings").text
    assert secret not in text
    assert "******@127.0.0.1:1/0" in text
