"""Secrets in the database are bound to their place: moved, damaged and older ones."""

import base64
import json
import sqlite3

import orjson
import pytest
from sqlalchemy import Text, cast, select, text, update
from sqlalchemy.exc import StatementError

from app.db import connections
from app.db.clock import after, now
from app.db.detached_rows import add, add_all, reader, save
from app.db.sealing import MARK, keyring_of
from app.models import (
    AgentRecord,
    DataKey,
    DeployTemplate,
    Node,
    Operation,
    OperationStep,
    SealedTable,
    VolumeTarget,
    Webhook,
)
from app.server.application import create_app
from app.text.masking import Unreadable
from tests.integration.conftest import KEY
from tests.integration.test_sealing import INFO, run
from tests.support.inside import Inside
from workers.periodic import power_sync, sealing

VERSION = {"X-OpenStack-Ironic-API-Version": "1.115"}
SECRET = {"redfish_address": "https://bmc", "redfish_password": "calvin"}


@pytest.fixture
def writer(database):
    """A writer of the database who lacks the master key."""
    engine = connections.connect(database)

    class Writer:
        def read(self, column, ident):
            with engine.connect() as connection:
                (key,) = column.table.primary_key
                query = select(cast(column, Text)).where(key == ident)
                return connection.scalar(query)

        def write(self, column, ident, stored):
            with engine.begin() as connection:
                connection.execute(
                    text(f"UPDATE {column.table.name} SET {column.name} = :new"
                         f" WHERE {column.table.primary_key.columns.keys()[0]} = :row"),
                    {"new": stored, "row": ident},
                )  # fmt: skip

    yield Writer()
    engine.dispose()


NODES = Node.__table__.c


def password_of(writer, node):
    return json.loads(writer.read(NODES.driver_info, node))["redfish_password"]


def test_a_secret_opens_at_its_place_only(sealed, writer):
    victim, thief = sealed.node(driver_info=SECRET), sealed.node(driver_info={"a": 1})
    stolen = password_of(writer, victim)
    assert stolen.startswith(f"{MARK}2:")

    places = [
        (NODES.driver_info, thief, {"redfish_password": stolen}),  # another row
        (NODES.driver_internal_info, victim, {"redfish_password": stolen}),  # another column
        (NODES.driver_info, victim, {"ipmi_password": stolen}),  # another key
        (NODES.driver_info, victim, {"deep": {"redfish_password": stolen}}),
        (NODES.extra, thief, {"note": stolen}),  # a key that is shown
        (NODES.extra, thief, {"list": ["a", stolen]}),
        (NODES.instance_info, thief, [stolen]),
    ]
    for column, ident, document in places:
        writer.write(column, ident, json.dumps(document))
        value = getattr(sealed.read(ident), column.name)
        assert "calvin" not in orjson.dumps(value).decode(), column
        writer.write(column, ident, "{}")
    writer.write(NODES.driver_info, victim, json.dumps({**SECRET, "redfish_password": stolen}))
    assert SECRET == sealed.read(victim).driver_info


def test_a_secret_does_not_open_in_another_table(sealed, writer):
    node = sealed.node(driver_info=SECRET)
    sealed.agent(node, token="calvin-token")
    columns = {"owner": None, "name": "w", "url": "https://h/?sig=calvin", "secret": "calvin" * 3}
    with sealed.runtime.transaction() as session:
        session.add(Webhook(uuid="w-1", position=0, types=[], **columns))
        session.add(VolumeTarget(
            uuid="v-1", node_id=node, volume_type="iscsi", volume_id="v", boot_index=0,
            properties={"auth_password": "calvin"},
        ))  # fmt: skip
    with sealed.runtime.reading() as session:
        hook = session.scalars(select(Webhook)).one()
        assert "https://h/?sig=calvin" == hook.url
        ident = hook.id
    token = writer.read(AgentRecord.__table__.c.token, node)
    hooks, volumes = Webhook.__table__.c, VolumeTarget.__table__.c
    url = writer.read(hooks.url, ident)
    for column, row, stored in (
        (hooks.secret, ident, token),
        (hooks.secret, ident, url),
        (NODES.extra, node, json.dumps({"x": url})),
        (volumes.properties, 1, json.dumps({"auth_password": password_of(writer, node)})),
    ):
        writer.write(column, row, stored)
    with sealed.runtime.reading() as session:
        assert isinstance(session.scalars(select(Webhook)).one().secret, Unreadable)
        assert isinstance(session.get_one(Node, node).extra["x"], Unreadable)
        properties = session.scalars(select(VolumeTarget)).one().properties
        assert isinstance(properties["auth_password"], Unreadable)
        assert "calvin-token" == session.get_one(AgentRecord, node).token


def damaged(stored):
    version, ident, content = stored.removeprefix(MARK).split(":")
    data = base64.b64decode(content)
    changed = base64.b64encode(bytes([data[0] ^ 1]) + data[1:]).decode()
    return {
        "truncated": stored[:-9],
        "no content": f"{MARK}{version}:{ident}:",
        "wrong base64": f"{MARK}{version}:{ident}:%%%",
        "short": f"{MARK}{version}:{ident}:AAAA",
        "changed": f"{MARK}{version}:{ident}:{changed}",
        "unknown version": f"{MARK}9:{ident}:{content}",
        "other version": f"{MARK}1:{ident}:{content}",
        "unknown key": f"{MARK}{version}:{'0' * 16}:{content}",
        "only the mark": MARK,
        "too much": stored + "AAAA",
    }


def test_a_damaged_secret_costs_its_own_field_only(sealed, writer, monkeypatch):
    monkeypatch.setattr("app.db.sealing.REFRESH", 0.5)
    node, other = sealed.node(driver_info={**SECRET, "a": "kept"}), sealed.node(driver_info=SECRET)
    client = create_app(sealed.runtime).test_client()
    whole = password_of(writer, node)
    cases = damaged(whole)
    ring = keyring_of(sealed.runtime.engine.dialect)
    cases["no JSON"] = ring.seal_at(
        b"no json", f"nodes.driver_info:{sealed.read(node).uuid}", ("redfish_password",)
    )
    for name, stored in cases.items():
        document = {**SECRET, "redfish_password": stored, "a": "kept"}
        writer.write(NODES.driver_info, node, json.dumps(document))

        driver_info = sealed.read(node).driver_info
        assert isinstance(driver_info["redfish_password"], Unreadable), name
        assert "kept" == driver_info["a"]
        for path in ("/v1/nodes/detail", "/v1/nodes?fields=uuid,driver_info"):
            answer = client.get(path, headers=VERSION)
            assert 200 == answer.status_code, (name, answer.text)
            infos = [entry["driver_info"] for entry in answer.json["nodes"]]
            assert ["******"] * 2 == [info["redfish_password"] for info in infos]
        text_ = writer.read(NODES.driver_info, node)
        place = f"nodes.driver_info:{sealed.read(node).uuid}"
        assert json.loads(ring.open_text(text_, place)) == {**document, "redfish_password": None}

        sealed.change(Node, node, driver_info={**driver_info, "b": 1})  # another field is changed
        assert stored == password_of(writer, node), name
    assert SECRET == sealed.read(other).driver_info


def test_a_page_for_a_caller_who_may_see_secrets_opens_each_at_its_own_place(
    sealed, writer, tmp_path
):
    policy = tmp_path / "policy.yaml"
    policy.write_text('"show_password": ""\n')
    service = Inside(
        sealed.url, INGOT_DATABASE_SECRETS_KEY=KEY, INGOT_OSLO_POLICY_POLICY_FILE=str(policy)
    )
    other_secret = {**SECRET, "redfish_password": "hobbes"}
    first, _second, thief = (
        service.node(name=name, driver_info=info)
        for name, info in (("a", SECRET), ("b", other_secret), ("c", {"a": 1}))
    )
    moved_secret = {"redfish_password": password_of(writer, first)}
    writer.write(NODES.driver_info, thief, json.dumps(moved_secret))
    client = create_app(service.runtime).test_client()
    for path in ("/v1/nodes/detail", "/v1/nodes?fields=name,driver_info"):
        page = client.get(path, headers=VERSION).json["nodes"]
        documents = {node["name"]: node["driver_info"] for node in page}
        assert documents == {"a": SECRET, "b": other_secret, "c": {"redfish_password": None}}
    service.close()


def test_a_damaged_secret_stops_power_sync_for_no_other_node(sealed, writer):
    nodes = [sealed.node("available", driver_info=SECRET, power_interface="fake", power_state="power on",
                         name=name)
             for name in ("damaged", "whole")]  # fmt: skip
    sealed.conductor()
    writer.write(NODES.driver_info, nodes[0],
                 json.dumps({**SECRET, "redfish_password": f"{MARK}2:x"}))  # fmt: skip

    power_sync.sync(sealed.runtime, "c-1")

    damaged_, whole = map(sealed.read, nodes)
    assert ("power on", 1) == (damaged_.power_state, damaged_.power_sync_failures)
    assert ("power on", 0) == (whole.power_state, whole.power_sync_failures)


def test_sessions_and_detached_rows_write_secrets_that_open(sealed, writer):
    node = sealed.node(driver_info=SECRET)
    with sealed.runtime.transaction() as session:
        operation = Operation(uuid="o-1", node_id=node, kind="clean", state="queued", fence=1, created_at=now(),
                              arguments={"password": "calvin"})  # fmt: skip
        session.add(operation)
        session.flush()
        ident = operation.id
        connection = session.connection()
        steps = [
            OperationStep(operation_id=ident, position=at, interface="bios", name="x",
                          source="request", args={"password": f"calvin-{at}"})
            for at in range(3)
        ]  # fmt: skip
        session.add(steps[0])
        add(connection, steps[1])
        add_all(connection, steps[2:])
    read = reader(OperationStep)
    table = OperationStep.__table__
    with sealed.runtime.write_connection() as connection:
        rows = connection.execute(select(*table.c).order_by(table.c.position)).all()
        assert [f"calvin-{at}" for at in range(3)] == [row.args["password"] for row in rows]
        step = read(iter(rows[1]))
        step.progress, step.result = {"token": "calvin-progress"}, {"a": {"secret": ["calvin"]}}
        save(connection, step)
    with sealed.runtime.reading() as session:
        row = session.scalars(select(OperationStep).where(OperationStep.position == 1)).one()
        assert ({"token": "calvin-progress"}, {"a": {"secret": ["calvin"]}}) == (
            row.progress, row.result)  # fmt: skip
        assert {"password": "calvin"} == session.scalars(select(Operation)).one().arguments
    stored = [writer.read(table.c[name], row.id) for name in ("args", "progress", "result")]
    assert not any("calvin" in value for value in stored)
    writer.write(table.c.args, rows[2].id, writer.read(table.c.args, rows[0].id))
    with sealed.runtime.reading() as session:
        assert isinstance(session.get_one(OperationStep, rows[2].id).args["password"], Unreadable)


def test_a_statement_that_names_no_row_writes_no_secret(sealed):
    node = sealed.node(driver_info=SECRET)
    with (
        pytest.raises(StatementError, match="row of redfish_password is not known"),
        sealed.runtime.write_connection() as connection,
    ):
        connection.execute(update(Node).where(Node.id == node).values(driver_info=SECRET))
    with sealed.runtime.write_connection() as connection:
        connection.execute(update(Node).where(Node.id == node).values(extra={"a": 1}))
    assert ({"a": 1}, SECRET) == (sealed.read(node).extra, sealed.read(node).driver_info)


def as_before(inside):
    """Make the data keys of a database those of a release that bound no secret."""
    with inside.runtime.write_connection() as connection:
        connection.execute(update(DataKey).values(bound=False))
    inside.close()
    return inside.another()


def aged(inside):
    with inside.runtime.write_connection() as connection:
        connection.execute(update(DataKey).values(created_at=after(-3600)))


def test_older_secrets_are_read_until_rotation_has_bound_them(sealed, writer):
    old = as_before(sealed)
    node, other = old.node(driver_info=INFO), old.node(driver_info=SECRET)
    old.agent(node, token="calvin")
    with old.runtime.transaction() as session:
        session.add(
            DeployTemplate(uuid="t", name="CUSTOM_X", extra={"password": "calvin"}, steps=[])
        )
        session.add(SealedTable(name="nodes", last=node + 9, done=True))
    unbound = password_of(writer, other)
    assert unbound.startswith(f"{MARK}1:")
    assert INFO == old.read(node).driver_info
    writer.write(NODES.extra, node, json.dumps({"note": unbound}))  # it is shown
    assert isinstance(old.read(node).extra["note"], Unreadable)
    assert [False] == [key["bound"] for key in json.loads(run(old, "status"))["data_keys"]]
    aged(old)
    assert 0 == sealing.seal_older_rows(old.runtime)  # not before the operator says so
    old.close()

    run(old, "rotate")
    new = old.another()
    assert "nodes" in json.loads(run(new, "status"))["tables_to_encrypt"]
    assert SECRET == new.read(other).driver_info  # meanwhile
    aged(new)
    assert 4 == sealing.seal_older_rows(new.runtime)

    assert [] == json.loads(run(new, "status"))["tables_to_encrypt"]
    assert password_of(writer, other).startswith(f"{MARK}2:")
    assert (INFO, SECRET) == (new.read(node).driver_info, new.read(other).driver_info)
    with new.runtime.reading() as session:
        assert "calvin" == session.get_one(AgentRecord, node).token
        assert {"password": "calvin"} == session.scalars(select(DeployTemplate)).one().extra
    new.close()
    new = new.another()
    assert all(key["bound"] for key in json.loads(run(new, "status"))["data_keys"])
    writer.write(NODES.driver_info, other, json.dumps({**SECRET, "redfish_password": unbound}))
    assert isinstance(new.read(other).driver_info["redfish_password"], Unreadable)
    new.close()


def test_a_copy_of_the_database_opens_with_its_key(sealed):
    """As a restored backup: the same identifiers, in another place."""
    if not sealed.url.startswith("sqlite"):
        pytest.skip("the copy is one of a file")
    node = sealed.node(driver_info=SECRET)
    path = sealed.url.partition(":///")[2]
    with sqlite3.connect(path) as source, sqlite3.connect(f"{path}.copy") as target:
        source.backup(target)
    copy = Inside(f"{sealed.url}.copy", INGOT_DATABASE_SECRETS_KEY=KEY)
    assert SECRET == copy.read(node).driver_info
    copy.close()
