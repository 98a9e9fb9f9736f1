"""Rows that `ingot export-ironic` does not write, and the reasons that it gives."""

import json
from datetime import datetime, timedelta

import pytest

from app.models import (
    Allocation,
    Chassis,
    Conductor,
    DeployTemplate,
    Hold,
    Node,
    NodeHistory,
    Port,
    Rollout,
    RolloutNode,
    User,
    VolumeTarget,
)
from app.rows import data_keys
from tests.integration.ironic_export.conftest import (
    ACTIVE,
    ENROLLED,
    KEY,
    RULE,
    add,
    add_fleet,
)
from tests.support.inside import Inside
from tests.support.ironic_databases import change, rows
from workers import cli
from workers.moving import ironic_39


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_secrets_that_no_key_opens_are_not_written(run, there, database):
    sealing = Inside(database, INGOT_DATABASE_SECRETS_KEY=KEY)
    data_keys.start(sealing.settings.database)
    sealing.close()
    sealing = Inside(database, INGOT_DATABASE_SECRETS_KEY=KEY)
    add_fleet(sealing)
    with sealing.runtime.transaction() as session:
        text = session.connection().exec_driver_sql("SELECT driver_info FROM nodes").scalar_one()
        stored = json.loads(text)
        sealed = stored["redfish_password"]
        stored["redfish_password"] = sealed[:-4] + ("AAAA" if sealed[-4:] != "AAAA" else "BBBB")
        session.connection().exec_driver_sql(
            "UPDATE nodes SET driver_info = ?", (json.dumps(stored),)
        )
    sealing.close()
    _, items, _ = run("--apply", "--yes", INGOT_DATABASE_SECRETS_KEY=KEY)
    node = next(item for item in items.values() if item["kind"] == "node")
    assert "skipped" == node["outcome"]
    assert "driver_info has secrets that no key here opens" in node["detail"]
    assert [] == rows(there, "nodes")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("columns", "detail"),
    [
        ({"provision_state": "cleaning"}, "wait for the end of its operation, then export it"),
        ({"provision_state": "clean hold"}, "unhold or abort it, then export it"),
        ({"reservation": "c-1"}, "locked by conductor c-1"),
        ({"target_power_state": "power off"}, "its power is on the way to 'power off'"),
        ({"operation_id": 1}, "an operation is under way"),
        ({"network_interface": "switch"}, "--interface network:switch=NAME"),
        ({"power_interface": "webhook"}, "power_interface webhook is not in Ironic, which has redfish"),
        ({"deploy_interface": "noop"}, "--interface deploy:noop=NAME"),
        ({"driver": "novel"}, "hardware type novel is none of Ironic, which has fake-hardware, idrac"),
        ({"name": "a\0b"}, "nodes.name has a NUL character"),
        ({"description": "\0"}, "nodes.description has a NUL character"),
        ({"instance_name": "x" * 256}, "nodes.instance_name has more than 255 characters"),
    ],
)  # fmt: skip
def test_a_node_that_ironic_cannot_hold_is_named_with_the_remedy(run, view, there, columns, detail):
    node = add_fleet(view)
    with view.runtime.transaction() as session:
        session.query(Node).filter_by(id=node.id).update(columns)
    status, items, _ = run("--apply", "--yes")
    item = next(item for item in items.values() if item["kind"] == "node")
    assert (1, "skipped") == (status, item["outcome"])
    assert detail in item["detail"]
    assert [] == rows(there, "nodes") == rows(there, "ports")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("model", "columns", "detail"),
    [
        (VolumeTarget, {"volume_id": "v" * 37}, "volume_targets.volume_id has more than 36 characters"),
        (Port, {"name": "\0"}, "ports.name has a NUL character"),
        (NodeHistory, {"event": "a\0"}, "node_history.event has a NUL character"),
        (Allocation, {"state": "allocating"}, "is looking for a node"),
    ],
)  # fmt: skip
def test_a_part_that_ironic_cannot_hold_is_named(run, view, there, model, columns, detail):
    add_fleet(view)
    with view.runtime.transaction() as session:
        session.query(model).filter_by(uuid=session.query(model.uuid).limit(1).scalar()).update(
            columns
        )
    _, items, _ = run("--apply", "--yes")
    item = next(item for item in items.values() if item["kind"] == "node")
    assert "skipped" == item["outcome"]
    assert detail in item["detail"]
    assert [] == rows(there, "nodes")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_holds_and_rollouts_keep_a_node_here(run, view, there):
    node = add_fleet(view)
    past, future = (datetime.now() + timedelta(days=days) for days in (-2, 2))
    add(view, Hold(uuid=ENROLLED, node_id=node.id, kind="hardware", reason="r", expires_at=past))
    with view.runtime.transaction() as session:
        rollout = Rollout(
            uuid=ACTIVE, target="clean", state="paused", waves=1, error_budget=1, nodes=1
        )
        session.add(rollout)
        session.flush()
        session.add(
            RolloutNode(rollout_id=rollout.id, node_uuid=node.uuid, wave=1, state="pending")
        )
    assert f"rollout {ACTIVE} has not ended" in node_item(run())["detail"]
    with view.runtime.transaction() as session:
        session.query(Rollout).one().state = "aborted"
        session.add(
            Hold(uuid=ACTIVE, node_id=node.id, kind="investigation", reason="r", expires_at=future)
        )
    assert "hold of kind investigation: Ironic has no holds" in node_item(run())["detail"]
    with view.runtime.transaction() as session:
        session.delete(session.query(Hold).filter_by(uuid=ACTIVE).one())
    assert "would be exported" == node_item(run())["outcome"]


def node_item(result):
    return next(item for item in result[1].values() if item["kind"] == "node")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_interfaces_are_replaced_by_ironics_with_a_note(run, view, there):
    add_fleet(view)
    with view.runtime.transaction() as session:
        node = session.query(Node).one()
        node.console_interface, node.console_enabled = "redfish-serial", True
        node.network_interface, node.fault, node.maintenance = "switch", "restored", True
        session.query(DeployTemplate).one().description = "of us"
        session.add(User(uuid=ENROLLED, name="ann"))
    _, items, warning = run("--apply", "--yes", "--interface", "network:switch=noop")
    (row,) = rows(there, "nodes")
    assert ("no-console", 0, "noop", None, 1) == tuple(
        row[name]
        for name in (
            "console_interface",
            "console_enabled",
            "network_interface",
            "fault",
            "maintenance",
        )
    )
    detail = node_item((0, items))["detail"]
    for note in (
        "console_interface redfish-serial -> no-console (without console)", "console_enabled -> false",
        "network_interface switch -> noop", "fault restored -> null",
    ):  # fmt: skip
        assert note in detail
    template = next(item for item in items.values() if item["kind"] == "deploy template")
    assert "without description" == template["detail"]
    assert "user: 1" in warning
    again = run("--apply", "--yes", "--interface", "network:switch=noop")
    assert "there already" == node_item(again)["outcome"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_row_that_ironics_database_refuses_is_named(run, view, there):
    add_fleet(view)
    change(
        there,
        f"INSERT INTO nodes (id, uuid) VALUES (1, '{ACTIVE}')",
        f"INSERT INTO ports (uuid, node_id, address) VALUES ('{RULE}', 1, '52:54:00:00:00:03')",
    )
    status, items, _ = run("--apply", "--yes")
    (item,) = items_of(items, "node", "skipped")
    assert (1, ENROLLED) == (status, item["uuid"])
    assert "Ironic's database refuses it: UNIQUE constraint failed: ports.address" in item["detail"]
    assert [ACTIVE] == [node["uuid"] for node in rows(there, "nodes")], "half of a node"
    assert 1 == len(rows(there, "ports"))


def items_of(items, kind, outcome):
    return [item for item in items.values() if (item["kind"], item["outcome"]) == (kind, outcome)]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_node_without_its_chassis_in_ironic_waits_for_it(run, view, there):
    add_fleet(view)
    with view.runtime.transaction() as session:
        session.query(Chassis).one().description = "\0"
    _, items, _ = run("--apply", "--yes")
    assert f"its chassis {ACTIVE} is not in Ironic" in node_item((0, items))["detail"]
    assert [] == rows(there, "nodes")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_work_under_way_in_ironic_is_not_overwritten(run, ironic, view):
    with view.runtime.transaction() as session:
        session.query(Node).filter_by(uuid=ACTIVE).one().description = "ours"
    change(ironic, f"UPDATE nodes SET reservation = 'rack-1' WHERE uuid = '{ACTIVE}'")
    _, items, _ = run("--apply", "--yes", "--overwrite", source=ironic)
    assert "in Ironic: locked by conductor rack-1" in items[ACTIVE]["detail"]
    assert "skipped" == items[ACTIVE]["outcome"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_running_service_is_refused(run, ironic, view):
    change(ironic, "UPDATE conductors SET online = 1, updated_at = datetime('now')")
    with pytest.raises(cli.StartError, match="Ironic is running: conductor rack-1"):
        run("--apply", "--yes", source=ironic)
    change(ironic, "UPDATE conductors SET online = 0")
    view.conductor()
    with pytest.raises(cli.StartError, match="Ingot is running: conductor c-1"):
        run("--apply", "--yes", source=ironic)
    assert "Ingot is running" in run(source=ironic)[2]
    assert (
        "there already" == run("--apply", "--yes", "--force", source=ironic)[1][ACTIVE]["outcome"]
    )
    with view.runtime.transaction() as session:
        session.query(Conductor).one().online = False
    assert "there already" == run("--apply", "--yes", source=ironic)[1][ACTIVE]["outcome"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("UPDATE alembic_version SET version_num = 'abc'",
         f"schema has revision abc, .* of Ironic {ironic_39.RELEASE}, {ironic_39.REVISION}"),
        ("DELETE FROM alembic_version", "has revision none"),
        ("DROP TABLE alembic_version", "has revision none"),
        ("DROP TABLE nodes", "no database of Ironic"),
    ],
)  # fmt: skip
def test_another_schema_is_refused(run, there, changes, message):
    change(there, changes)
    for options in ((), ("--apply", "--yes")):
        with pytest.raises(cli.StartError, match=message):
            run(*options)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_secrets_in_plain_need_a_confirmation(run, view, there):
    add_fleet(view)
    with pytest.raises(cli.StartError, match=r"IN PLAIN TEXT .*: needs --yes"):
        run("--apply")
    assert [] == rows(there, "nodes")
