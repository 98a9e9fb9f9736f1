"""Idempotency keys of repeated requests, and waiting for a stable node."""

import re
import threading
import time
from itertools import chain

import pytest
from sqlalchemy import func, select, update

from app import runtime as app_runtime
from app.api.request import repeats
from app.api.transport.host_check import WRITING
from app.db.clock import after
from app.db.master_keys import Master
from app.db.sealing import MARK, NO_KEYS, Keyring, use
from app.inventory import nodes
from app.models import Allocation, Answered, Base, Chassis, Operation, Rollout
from app.server.application import BLUEPRINTS, create_app
from drivers.fake.hardware import FakePower
from tests.contract import test_fuzz
from tests.contract.conftest import fault
from tests.contract.test_audit_records import BODIES, filled
from tests.contract.test_fuzz import RIGHT, uuid
from workers.periodic.pruning import ANSWERED_LIFETIME, prune_answered

restore = test_fuzz.restore
BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
MANAGE = {"target": "manage"}
#: Path with parameters -> path of a resource that may be deleted, as the usual one may not.
FREE = {
    "/v1/nodes/<ident>/allocation": f"/v1/nodes/{uuid('n1')}/allocation",
    "/v1/portgroups/<ident>": f"/v1/portgroups/{uuid('free portgroup')}",
    "/v1/chassis/<uuid>": f"/v1/chassis/{uuid('free chassis')}",
    "/v1/nodes/<ident>/vendor_passthru": "/v1/nodes/n1/vendor_passthru?method=second_method",
    "/v1/nodes/<ident>/vendor_passthru/<function>": "/v1/nodes/n1/vendor_passthru/second_method",
}


def operations(api):
    with api.runtime.reading() as session:
        return session.scalar(select(func.count(Operation.id)))


@BOTH
def test_a_repeated_request_with_a_key_gets_the_same_answer_and_is_executed_once(api):
    node = api.node()
    path = f"/v1/nodes/{node['uuid']}/states/provision"
    answers = [api("PUT", path, MANAGE, **{"Idempotency-Key": "k-1"}) for _ in range(3)]
    assert [202, 202, 202] == [answer.status_code for answer in answers]
    assert 1 == len({answer.headers["Location"] for answer in answers})
    replays = [answer.headers.get("Idempotency-Replayed") for answer in answers]
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
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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
        columns = {column.name: getattr(answered, column.name) for column in Answered.__table__.c}
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
        (answer.status_code, answer.headers.get("Idempotency-Replayed")) for answer in answers
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
    with api.runtime.transaction() as session:
        for key, age in (("old", ANSWERED_LIFETIME + 60), ("new", ANSWERED_LIFETIME - 60)):
            row = Answered(caller="", key=key, request="", status=202, created_at=after(-age))
            session.add(row)
    assert 1 == prune_answered(api.runtime)
    with api.runtime.reading() as session:
        assert ["new"] == list(session.scalars(select(Answered.key)))


def test_waiting_ends_when_no_operation_is_left(api):
    node = api.node(provision_state="cleaning")
    path = f"/v1/nodes/{node['uuid']}/states?wait=30"
    timer = threading.Timer(0.3, lambda: api.set(node["uuid"], provision_state="available"))
    timer.start()
    began = time.monotonic()
    answer = api("GET", path)
    timer.join()
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


def declared():
    """Return the routes by (method, path)."""
    routes = chain.from_iterable(blueprint.declared for blueprint in BLUEPRINTS)
    return {(route.method, route.path): route for route in routes}


def writing_rules(api):
    """Yield (method, path) of all rules that change something, from the map of the application."""
    for rule in api.client.application.url_map.iter_rules():
        for method in sorted(set(WRITING) & rule.methods):
            yield method, re.sub(r"<[^>:]*:", "<", rule.rule)


def free(api):
    """Create resources that may be deleted, and make others deletable."""
    api("POST", "/v1/chassis", {"uuid": uuid("free chassis")})
    api("POST", "/v1/portgroups", {"uuid": uuid("free portgroup"), "node_uuid": uuid("n1")})
    with api.runtime.transaction() as session:
        node = nodes.find(session, uuid("n1"))
        session.execute(update(Allocation).values(node_id=node.id))
        session.execute(update(Rollout).values(state="succeeded"))


def request_of(method, path):
    """Return the path and body of a request to a route that succeeds, if there is one."""
    body = BODIES.get(f"{method} {path}", RIGHT.get(path.replace("<", "{").replace(">", "}")))
    used = FREE[path] if method == "DELETE" and path in FREE else None
    if "vendor_passthru" in path and path in FREE:
        used = FREE[path]
    return used or filled(path), body


def tables(api):
    """Return all rows of the database."""
    with api.runtime.reading() as session:
        return {
            table.name: [tuple(row) for row in session.execute(select(table))]
            for table in Base.metadata.sorted_tables
        }


def prepare(api, restore, method, path):
    restore()
    api.set(uuid("n1"), power_state="power off")
    if method == "DELETE":
        free(api)


def test_each_write_is_repeatable_or_refuses_the_key(restore, api, monkeypatch):
    """Driven by the map of all paths, so that a new route cannot be forgotten."""
    monkeypatch.setattr(FakePower, "records_exchanges", True)
    wrong, repeatable, routes = [], 0, declared()
    for method, path in writing_rules(api):
        route = routes.get((method, path))
        if route is None:  # it refuses each request
            continue
        prepare(api, restore, method, path)
        url, body = request_of(method, path)
        earlier_tables = tables(api)
        first_answer = api(method, url, body, **{"Idempotency-Key": "k"})
        if not route.takes_key:
            if first_answer.status_code != 400 or "Idempotency-Key" not in first_answer.text:
                wrong.append((method, path, first_answer.status_code, first_answer.text[:200]))
            assert earlier_tables == tables(api), (method, path)
            continue
        if "vendor_passthru" in path and method != "POST":  # no such function by this method
            assert 400 == first_answer.status_code
            continue
        earlier_tables = tables(api)
        second_answer = api(method, url, body, **{"Idempotency-Key": "k"})
        replay = second_answer.headers.get("Idempotency-Replayed")
        answers = [
            (answer.status_code, answer.data, answer.headers.get("Location"), answer.headers.get("ETag"),
             answer.headers.get("Content-Type"))
            for answer in (first_answer, second_answer)
        ]  # fmt: skip
        if first_answer.status_code >= 300 or replay != "true" or answers[0] != answers[1]:
            wrong.append((method, path, answers, replay))
        if earlier_tables != tables(api):
            wrong.append((method, path, "a repetition writes"))
        repeatable += 1
    assert [] == wrong, "\n".join(map(str, wrong))
    assert repeatable > 55


def test_each_write_checks_the_tag_or_refuses_it(restore, api):
    wrong, routes = [], declared()
    for method, path in writing_rules(api):
        route = routes.get((method, path))
        if route is None or ("vendor_passthru" in path and method != "POST"):
            continue
        prepare(api, restore, method, path)
        url, body = request_of(method, path)
        earlier_tables = tables(api)
        answer = api(method, url, body, **{"If-Match": '"another"'})
        expected = 412 if route.takes_tag else 400
        if (
            answer.status_code != expected
            or "If-Match" not in answer.text
            or earlier_tables != tables(api)
        ):
            wrong.append((method, path, answer.status_code, answer.text[:200]))
    assert [] == wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("header", ["Idempotency-Key", "If-Match"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/nodes/n1/vendor_passthru/third_method_sync", {"bar": "x"}),
        ("/v1/nodes/n1/states/provision", {"target": "provide", "dry_run": True}),
        ("/v1/rollouts", {"target": "provide", "nodes": {}, "dry_run": True}),
    ],
)
def test_headers_are_refused_where_they_have_no_effect(restore, api, path, body, header):
    method = "PUT" if path.endswith("provision") else "POST"
    answer = api(method, path, body, **{header: "k"})
    assert 400 == answer.status_code
    assert header in fault(answer)["faultstring"]


def test_a_read_ignores_the_key(api):
    node = api.node()
    for _ in range(2):
        answer = api("GET", f"/v1/nodes/{node['uuid']}", **{"Idempotency-Key": "k"})
        assert 200 == answer.status_code
        assert "Idempotency-Replayed" not in answer.headers


@BOTH
def test_of_concurrent_creations_at_two_processes_one_is_executed(api):
    other = app_runtime.make(api.runtime.settings, send=lambda _message: True)
    answers, barrier = [], threading.Barrier(6)
    headers = {"X-OpenStack-Ironic-API-Version": "1.115", "Idempotency-Key": "k"}

    def ask(application):
        client = application.test_client()
        barrier.wait()
        answer = client.post("/v1/chassis", json={"description": "row 7"}, headers=headers)
        answers.append((answer.status_code, answer.data, answer.headers.get("Location")))

    applications = (api.client.application, create_app(other)) * 3
    threads = [threading.Thread(target=ask, args=(application,)) for application in applications]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.engine.dispose()
    assert 1 == len(set(answers)), answers
    assert 201 == answers[0][0]
    with api.runtime.reading() as session:
        assert 1 == session.scalar(select(func.count(Chassis.id)))


@pytest.mark.parametrize(
    ("path", "body", "version"),
    [
        ("/v1/chassis", {"description": "another"}, "1.115"),
        ("/v1/chassis?", {"description": "first"}, "1.1"),
        ("/v1/portgroups", {"description": "first"}, "1.115"),
    ],
)
def test_a_key_of_another_body_version_or_path_is_refused(api, path, body, version):
    key = {"Idempotency-Key": "k"}
    assert 201 == api("POST", "/v1/chassis", {"description": "first"}, **key).status_code
    answer = api.at(version)("POST", path, body, **key)
    assert 400 == answer.status_code
    assert "'k' was already used with" in fault(answer)["faultstring"]


def test_an_answer_that_an_older_release_has_recorded_is_repeated_in_any_version(api):
    node, key = api.node(), {"Idempotency-Key": "k"}
    path = f"/v1/nodes/{node['uuid']}/states/provision"
    assert 202 == api("PUT", path, MANAGE, **key).status_code
    with api.runtime.transaction() as session:
        session.execute(update(Answered).values(minor=None, etag=None, body=None))
    answer = api.at("1.1")("PUT", path, MANAGE, **key)
    assert (202, "true") == (answer.status_code, answer.headers["Idempotency-Replayed"])


def test_recorded_bodies_are_encrypted_with_the_secrets(api):
    master = Master(bytes(32))
    data_key = master.new_data_key()
    keyring = Keyring([master], lambda: [data_key])
    use(api.runtime.engine.dialect, keyring)
    try:
        document = {"driver": "fake-hardware", "driver_info": {"note": "plain"}}
        answers = [api("POST", "/v1/nodes", document, **{"Idempotency-Key": "k"}) for _ in range(2)]
        with api.runtime.read_connection() as connection:
            (stored,) = connection.exec_driver_sql("SELECT body FROM answered").one()
    finally:
        use(api.runtime.engine.dialect, NO_KEYS)
    assert stored.startswith(MARK)
    assert "fake-hardware" not in stored
    assert answers[0].data == answers[1].data


ROLLOUT = {"target": "power on", "nodes": {"owner": "us"}, "uuid": uuid("new rollout")}


def test_a_repetition_is_answered_before_checks_that_the_first_request_fails(restore, api):
    answers = [api("POST", "/v1/rollouts", ROLLOUT, **{"Idempotency-Key": "k"}) for _ in range(2)]
    assert [201, 201] == [answer.status_code for answer in answers], answers[1].text
    assert 409 == api("POST", "/v1/rollouts", ROLLOUT).status_code


def test_a_request_that_a_repetition_overtakes_gets_its_answer(restore, api, monkeypatch):
    """The other one ends between this one's look for an answer and its checks."""
    first_answer = api("POST", "/v1/rollouts", ROLLOUT, **{"Idempotency-Key": "k"})
    look, looks = repeats._answer, []

    def late(context, key):
        looks.append(key)
        return look(context, key) if len(looks) > 1 else None

    monkeypatch.setattr(repeats, "_answer", late)
    second_answer = api("POST", "/v1/rollouts", ROLLOUT, **{"Idempotency-Key": "k"})
    assert (201, first_answer.data) == (second_answer.status_code, second_answer.data)
