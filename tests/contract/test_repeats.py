"""Idempotency keys of repeated requests, and waiting for a stable node."""

import threading
import time

import pytest
from sqlalchemy import func, select

from app.db.clock import after
from app.inventory import nodes
from app.models import Answered, Operation
from tests.contract.conftest import fault
from workers.periodic.pruning import prune_answered

BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
MANAGE = {"target": "manage"}


def operations(api):
    with api.runtime.reading() as session:
        return session.scalar(select(func.count(Operation.id)))


@BOTH
def test_a_repeated_request_with_a_key_gets_the_same_answer_and_is_executed_once(api):
    node = api.node()
    path = f"/v1/nodes/{node['uuid']}/states/provision"
    answers = [api("PUT", path, MANAGE, **{"Idempotency-Key": "k-1"}) for _ in range(3)]
    assert [202, 202, 202] == [each.status_code for each in answers]
    assert 1 == len({each.headers["Location"] for each in answers})
    replays = [each.headers.get("Idempotency-Replayed") for each in answers]
    assert [None, "true", "true"] == replays
    assert 1 == operations(api)
    assert 409 == api("PUT", path, MANAGE).status_code, "without the key it is a new request"


@BOTH
def test_one_of_concurrent_requests_with_a_key_is_executed(api):
    node = api.node()
    path = f"/v1/nodes/{node['uuid']}/states/provision"
    codes, barrier = [], threading.Barrier(8)

    def ask():
        client = api.client.application.test_client()
        headers = {"X-OpenStack-Ironic-API-Version": "1.115", "Idempotency-Key": "k-2"}
        barrier.wait()
        codes.append(client.put(path, json=MANAGE, headers=headers).status_code)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [202] * 8 == codes
    assert 1 == operations(api)


@BOTH
def test_a_request_repeated_during_the_first_gets_the_same_answer(api):
    """The first process is suspended before its commit: the second request waits for its end."""
    node = api.node(provision_state="available")
    path = f"/v1/nodes/{node['uuid']}/states/provision"
    key = {"Idempotency-Key": "k-4"}
    assert 202 == api("PUT", path, MANAGE, **key).status_code
    answers = []
    with api.runtime.transaction() as session:  # as if it had not been committed yet
        answered = session.scalar(select(Answered))
        columns = {each.name: getattr(answered, each.name) for each in Answered.__table__.c}
        session.delete(answered)
    api.set(node["uuid"], provision_state="available")
    with api.runtime.transaction() as session:
        session.add(Answered(**columns))
        session.flush()
        locked = nodes.lock(session, node["uuid"])
        again = threading.Thread(target=lambda: answers.append(api("PUT", path, MANAGE, **key)))
        again.start()
        time.sleep(0.5)
        locked.provision_state = "manageable"
    again.join()
    assert [(202, "true")] == [
        (each.status_code, each.headers.get("Idempotency-Replayed")) for each in answers
    ]


def test_a_key_of_another_request_is_refused(api):
    node = api.node()
    path = f"/v1/nodes/{node['uuid']}/states/"
    key = {"Idempotency-Key": "k-3"}
    assert 202 == api("PUT", path + "provision", MANAGE, **key).status_code
    other = api("PUT", path + "power", {"target": "power on"}, **key)
    assert 400 == other.status_code
    assert "Idempotency-Key" in fault(other)["faultstring"]


def test_a_refused_request_does_not_use_its_key(api):
    node = api.node()
    path = f"/v1/nodes/{node['uuid']}/states/provision"
    key = {"Idempotency-Key": "k-4"}
    assert 400 == api("PUT", path, {"target": "active"}, **key).status_code
    assert 202 == api("PUT", path, MANAGE, **key).status_code


def test_keys_are_deleted_after_their_lifetime(api):
    lifetime = api.runtime.settings.api.idempotency_key_lifetime
    with api.runtime.transaction() as session:
        for key, age in (("old", lifetime + 60), ("new", lifetime - 60)):
            row = Answered(caller="", key=key, request="", status=202, created_at=after(-age))
            session.add(row)
    assert 1 == prune_answered(api.runtime)
    with api.runtime.reading() as session:
        assert ["new"] == list(session.scalars(select(Answered.key)))


def test_waiting_ends_when_no_operation_is_left(api):
    node = api.node(provision_state="cleaning")
    path = f"/v1/nodes/{node['uuid']}/states?wait=30"
    rest = threading.Timer(0.3, lambda: api.set(node["uuid"], provision_state="available"))
    rest.start()
    began = time.monotonic()
    answer = api("GET", path)
    rest.join()
    assert "available" == answer.json["provision_state"]
    assert time.monotonic() - began < 20


def test_waiting_ends_at_its_timeout(api):
    node = api.node(provision_state="cleaning")
    answer = api("GET", f"/v1/nodes/{node['uuid']}/states?wait=0.2")
    assert 200 == answer.status_code
    assert "cleaning" == answer.json["provision_state"]


@pytest.mark.parametrize("wait", ["-1", "soon", "100000"])
def test_an_invalid_wait_is_refused(api, wait):
    node = api.node()
    answer = api("GET", f"/v1/nodes/{node['uuid']}/states?wait={wait}")
    assert 400 == answer.status_code
    assert "wait" in fault(answer)["faultstring"]
