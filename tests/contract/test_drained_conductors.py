"""Conductors that an operator drains: the requests, and every place that shows it."""

import pytest
from sqlalchemy import select, update

from app.api.request.context import services_of
from app.cluster import conductors, periodic_passes
from app.db.clock import after
from app.db.transactions import connection_of
from app.models import AuditRecord, Conductor, Operation, PeriodicPass
from tests.contract.conftest import fault
from tests.contract.test_service import hold, parts, service
from tests.support.inside_commands import Ingot


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request):
    return request.param


@pytest.fixture
def ingot(api):
    return Ingot(api.client.application)


def drain(api, reason="a new fan"):
    answer = api("PUT", "/v1/conductors/rack-1/drain", {"reason": reason})
    assert 202 == answer.status_code, answer.text
    api.runtime.cache.clear()


def undrain(api):
    assert 202 == api("DELETE", "/v1/conductors/rack-1/drain").status_code
    api.runtime.cache.clear()


def neighbour(api):
    with api.runtime.transaction() as session:
        interfaces = session.scalar(select(Conductor.interfaces))
        session.add(
            Conductor(
                hostname="rack-2",
                incarnation="2",
                interfaces=interfaces,
                heartbeat_at=after(3600.0),
            )
        )


def test_new_work_goes_to_other_conductors_until_the_end_of_the_drain(api):
    neighbour(api)
    nodes = [api.node()["uuid"] for _ in range(8)]

    def owners():
        return {api("GET", f"/v1/nodes/{node}").json["conductor"] for node in nodes}

    assert {"rack-1", "rack-2"} == owners()
    drain(api)
    assert {"rack-2"} == owners()
    for node in nodes:
        api("PUT", f"/v1/nodes/{node}/states/provision", {"target": "manage"})
    assert ["rack-2"] * 8 == [message.conductor for message in api.messages]
    undrain(api)
    assert {"rack-1", "rack-2"} == owners()


def test_a_drained_conductor_is_shown_with_its_reason(api):
    node, fields = api.node(), "/v1/conductors?fields=hostname,alive,drained_at,drain_reason"
    assert [None] == [item["drained_at"] for item in api("GET", fields).json["conductors"]]
    drain(api)
    (item,) = api("GET", fields).json["conductors"]
    assert (False, "a new fan") == (item["alive"], item["drain_reason"])
    began_at = item["drained_at"]
    drain(api, "two fans")  # a second request changes the reason, not the time
    (item,) = api("GET", fields).json["conductors"]
    assert (began_at, "two fans") == (item["drained_at"], item["drain_reason"])
    assert {"links", "hostname", "conductor_group", "alive"} == {
        *api("GET", "/v1/conductors").json["conductors"][0]
    }

    hold(api, node, "rack-1", state="running")
    document = service(api)
    assert "draining" == document["conductors"][0]["state"]
    assert "all conductors are drained" == parts(document)["conductors"]
    with api.runtime.transaction() as session:
        session.execute(update(Operation).values(state="succeeded", finished_at=after(0.0)))
    (conductor,) = service(api)["conductors"]
    assert ("drained", "two fans") == (conductor["state"], conductor["drain_reason"])
    undrain(api)
    (conductor,) = service(api)["conductors"]
    assert ("alive", None, None) == (
        conductor["state"], conductor["drained_at"], conductor["drain_reason"]
    )  # fmt: skip


def test_the_reason_of_a_node_that_waits_names_the_drain_and_its_end(api):
    node = api.node()
    drain(api)
    api("PUT", f"/v1/nodes/{node['uuid']}/states/provision", {"target": "manage"})
    summary = api("GET", f"/v1/nodes/{node['uuid']}/why").json["summary"]
    assert "conductor rack-1 is drained (a new fan)" in summary
    assert "`ingot conductor undrain rack-1` ends that" in summary
    assert "no conductor is alive" not in summary


def test_it_is_an_event_and_an_audit_record(api):
    after_number = api("GET", "/v1/events?limit=1").json["last"]
    drain(api)
    drain(api)
    undrain(api)
    undrain(api)
    events = api("GET", f"/v1/events?after={after_number}").json["events"]
    assert [("conductor.drained", "rack-1", "false", "true"),
            ("conductor.drained", "rack-1", "true", "false")] == [
        (event["type"], event["resource_name"], event["before"], event["after"]) for event in events
    ]  # fmt: skip
    services_of(api.client.application).refused_requests.flush()
    with api.runtime.reading() as session:
        query = select(AuditRecord.action).where(AuditRecord.action.like("%/drain"))
        actions = session.scalars(query.order_by(AuditRecord.id))
        assert ["update/conductor/drain"] * 2 + ["delete/conductor/drain"] * 2 == list(actions)


def test_an_unknown_conductor_and_a_wrong_reason_are_refused(api):
    answer = api("PUT", "/v1/conductors/nonesuch/drain", {})
    assert (404, "nonesuch" in fault(answer)["faultstring"]) == (answer.status_code, True)
    answer = api("PUT", "/v1/conductors/rack-1/drain", {"reason": 5})
    assert (400, "reason" in fault(answer)["faultstring"]) == (answer.status_code, True)
    answer = api("PUT", "/v1/conductors/rack-1/drain", {"resaon": "x"})
    assert (400, "reason" in fault(answer)["faultstring"]) == (answer.status_code, True)
    assert 404 == api("DELETE", "/v1/conductors/nonesuch/drain").status_code


def test_a_drained_conductor_that_is_away_is_not_forgotten(api):
    drain(api)
    with api.runtime.transaction() as session:
        session.execute(update(Conductor).values(heartbeat_at=after(-7200.0)))
        assert [] == conductors.remove_silent(session, 3600.0)
        conductors.register(session, "rack-1", "again", "", {})
        assert conductors.is_drained(session, "rack-1")
    undrain(api)
    with api.runtime.transaction() as session:
        session.execute(update(Conductor).values(heartbeat_at=after(-7200.0)))
        assert ["rack-1"] == conductors.remove_silent(session, 3600.0)


def test_no_passes_are_expected_of_a_drained_conductor_nor_at_once_after(api):
    with api.runtime.transaction() as session:
        periodic_passes.expect_of(connection_of(session), "rack-1", {"ingot.sync_power": 1.0})
        session.execute(update(PeriodicPass).values(expected_at=after(-3600.0)))
    assert "OK" != parts(service(api))["periodic tasks"]
    drain(api)
    assert "OK" == parts(service(api))["periodic tasks"]
    undrain(api)
    assert "OK" == parts(service(api))["periodic tasks"]


def test_the_command_asks_before_nodes_lose_their_only_conductor(api, ingot):
    api.node()
    api.node()
    refused = ingot("conductor", "drain", "rack-1", status=2)
    assert "drain rack-1: 2 nodes without another conductor must wait" in refused.err
    assert [] == ingot.changes
    neighbour(api)
    api.runtime.cache.clear()
    ingot("conductor", "drain", "rack-1", "--reason", "a new fan")
    listed = ingot("conductor", "list", "-c", "hostname,drain_reason", "-o", "value")
    assert ["rack-1\ta new fan", "rack-2\t"] == listed.lines
    waited = ingot("conductor", "drain", "rack-1", "--wait")
    assert ["rack-1: drained, no step runs on it"] == waited.lines
    hold(api, api.node(), "rack-1", state="running")
    running = ingot("conductor", "drain", "rack-1", "--wait", "0", status=3)
    assert "rack-1 is draining, with 1 running steps" in running.err
    assert ["rack-1: gets new work"] == ingot("conductor", "undrain", "rack-1").lines
    assert "nonesuch" in ingot("conductor", "undrain", "nonesuch", status=1).err
