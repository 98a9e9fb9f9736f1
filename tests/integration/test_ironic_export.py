"""`ingot export-ironic`: nodes on their way back, to a database with the schema of Ironic 39."""

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.models import (
    Allocation,
    BiosSetting,
    Chassis,
    Conductor,
    DeployTemplate,
    FirmwareComponent,
    Hold,
    InspectionRule,
    Node,
    NodeHistory,
    NodeInventory,
    NodeTrait,
    Port,
    Portgroup,
    Rollout,
    RolloutNode,
    Runbook,
    User,
    VolumeConnector,
    VolumeTarget,
)
from app.models.audit import AuditRecord
from app.rows import data_keys
from tests.compare import ironic as real_ironic
from tests.support.inside import Inside
from tests.support.ironic_databases import change, empty, recorded, rows
from workers import cli
from workers.moving import bundles, ironic_39, translation

ACTIVE = "00000000-0000-4000-8000-000000000103"
ENROLLED = "00000000-0000-4000-8000-000000000100"
TEMPLATE, RUNBOOK, RULE = (f"00000000-0000-4000-8000-00000000001{number}" for number in range(3))
KEY = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
#: Models of resources that belong to no node.
RESOURCES = (Chassis, DeployTemplate, Runbook, InspectionRule)
#: Tables of Ironic, and the columns that an export does not carry over: ids, versions of objects,
#: times of rows that have none here.
TABLES = {
    "allocations": (), "bios_settings": (), "chassis": (), "deploy_template_steps": ("created_at",),
    "deploy_templates": (), "firmware_information": (), "inspection_rules": (), "node_history": (),
    "node_inventory": (), "node_traits": ("created_at",), "nodes": ("driver_internal_info",),
    "portgroups": (), "ports": (), "runbook_steps": ("created_at",), "runbook_traits": ("created_at",),
    "runbooks": (), "volume_connectors": (), "volume_targets": (),
}  # fmt: skip


@pytest.fixture
def there(tmp_path):
    """Path of an empty database of Ironic."""
    return empty(tmp_path / "there.db")


@pytest.fixture
def run(database, there):
    """Run a command; return its exit status, its items by UUID, and its standard error."""

    def call(*words, command="export-ironic", source=there, service=database, **environ):
        env = {
            "INGOT_CONFIG": "", "INGOT_DATABASE_CONNECTION": service,
            "INGOT_ENABLED_HARDWARE_TYPES": "fake-hardware,redfish,idrac,ipmi", **environ,
        }  # fmt: skip
        result = CliRunner(env=env).invoke(
            cli.app, [command, f"sqlite:///{source}", "-o", "json", *words]
        )
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        items = {item["uuid"]: item for item in json.loads(result.stdout)}
        return result.exit_code, items, result.stderr

    return call


@pytest.fixture
def ironic(run, tmp_path):
    """Path of the recorded database, whose nodes are imported."""
    path = recorded(tmp_path / "ironic.db")
    run("--apply", command="import-ironic", source=path)
    return path


@pytest.fixture
def view(database):
    service = Inside(database)
    yield service
    service.close()


def add(view, *models):
    with view.runtime.transaction() as session:
        for model in models:
            session.add(model)
            session.flush()


def fleet(database, **environ):
    """Return all rows that are exported, as an export reads them, without ids of the database."""
    view = Inside(database, **environ)
    try:
        with view.runtime.reading() as session:
            found = []
            for model, parts in ((Node, translation.PARTS), *((model, ()) for model in RESOURCES)):
                for (uuid,) in session.query(model.uuid).order_by(model.uuid):
                    bundle = bundles.stored(session, model, uuid, parts)
                    found.append((without_id(bundle.values), [
                        sorted((without_id(part) for part in bundle.parts[part_model]), key=repr)
                        for part_model in parts
                    ]))  # fmt: skip
            return found
    finally:
        view.close()


def without_id(values):
    return {name: value for name, value in values.items() if name != "id"}


def content(path):
    """Return the rows of Ironic's tables with names in place of ids, and without some columns."""
    names = {
        table: {row["id"]: row["uuid"] for row in rows(path, table, "id, uuid")}
        for table in ("nodes", "chassis", "portgroups", "allocations", "deploy_templates", "runbooks")
    }  # fmt: skip
    references = {
        "node_id": "nodes", "chassis_id": "chassis", "portgroup_id": "portgroups",
        "allocation_id": "allocations", "deploy_template_id": "deploy_templates", "runbook_id": "runbooks",
    }  # fmt: skip
    return {
        table: sorted(
            (
                {
                    name: names[references[name]].get(value) if name in references else value
                    for name, value in row.items()
                    if name not in ("id", "version", *ignored)
                }
                for row in rows(path, table)
            ),
            key=repr,
        )
        for table, ignored in TABLES.items()
    }


def dump(path):
    return {table: rows(path, table) for table in TABLES}


def made_here(now=datetime(2026, 3, 1, 10, 0, 0, 123456)):
    """Return rows of a fleet that Ironic has never seen, and a check of them."""
    node = Node(
        uuid=ENROLLED, name="r1", driver="redfish", conductor_group="rack1", provision_state="active",
        driver_info={"redfish_address": "https://192.0.2.1", "redfish_password": "pass"},
        driver_internal_info={"is_whole_disk_image": True, "kept_here": 1}, chassis_uuid=ACTIVE,
        properties={"cpus": 8, "note": "\u00e9\U0001f5a5"}, power_state="power on", provision_updated_at=now,
        description="line\nfeed", secure_boot=True, instance_uuid="00000000-0000-4000-8000-00000000000a",
        bios_interface="redfish", boot_interface="ipxe", console_interface="no-console", deploy_interface="direct",
        firmware_interface="no-firmware", inspect_interface="agent", management_interface="redfish",
        network_interface="noop", power_interface="redfish", raid_interface="agent", rescue_interface="agent",
        storage_interface="noop", vendor_interface="redfish", updated_at=now,
    )  # fmt: skip
    parts = (
        NodeTrait(trait="CUSTOM_A"), NodeTrait(trait="CUSTOM_B"),
        Portgroup(uuid=ENROLLED, address="52:54:00:00:00:01", mode="active-backup"),
        Port(uuid=ENROLLED, address="52:54:00:00:00:02", internal_info={"tenant_vif_port_id": "v"}),
        Port(uuid=ACTIVE, address="52:54:00:00:00:03", pxe_enabled=False),
        VolumeConnector(uuid=ENROLLED, type="iqn", connector_id="i"),
        VolumeTarget(uuid=ENROLLED, volume_type="iscsi", volume_id="v", boot_index=0,
                     properties={"auth_password": "volume's"}),
        BiosSetting(name="Boot", value="Uefi", allowable_values=["Uefi"], read_only=True),
        FirmwareComponent(component="bmc", initial_version="1", current_version="2"),
        NodeInventory(inventory={"cpu": {"count": 8}}, plugin_data={"a": 1}),
        NodeHistory(uuid=ENROLLED, created_at=now, severity="INFO", event_type="provisioning", event="e\u00e9"),
        Allocation(uuid="00000000-0000-4000-8000-00000000000a", name="a", state="active", resource_class="b"),
    )  # fmt: skip
    step = {"interface": "bios", "step": "reset", "args": {"secret": "s"}}
    resources = (
        DeployTemplate(uuid=TEMPLATE, name="CUSTOM_A", steps=[step | {"priority": 1}, step | {"priority": 9}]),
        Runbook(uuid=RUNBOOK, name="CUSTOM_B", steps=[step | {"order": 1}], traits=["CUSTOM_A", "CUSTOM_C"], public=True),
        InspectionRule(uuid=RULE, description="d", conditions=[{"op": "eq"}], actions=[{"op": "fail"}], priority=5),
    )  # fmt: skip
    return node, parts, resources


def add_fleet(view):
    node, parts, resources = made_here()
    add(view, Chassis(uuid=ACTIVE, description="rack"), *resources, node)
    for part in parts:
        part.node_id = node.id
    add(view, *parts)
    return node


def test_nodes_come_back_as_ironic_has_had_them(
    run, database, ironic, there, migrated_sqlite, tmp_path
):
    status, items, _ = run("--apply", "--yes")
    assert (0, {"exported"}) == (status, {item["outcome"] for item in items.values()})
    unsettled = ("clean wait", "wait call-back")
    for state in unsettled:
        (node,) = rows(ironic, "nodes", "id, uuid", f"provision_state = '{state}'")
        for table in rows(ironic, "sqlite_master", "name, sql", "type = 'table'"):
            if "node_id INTEGER" in table["sql"]:
                change(ironic, f"DELETE FROM {table['name']} WHERE node_id = {node['id']}")
        change(ironic, f"DELETE FROM nodes WHERE id = {node['id']}")
    assert content(ironic) == content(there)
    shutil.copy(migrated_sqlite, tmp_path / "second.db")
    second = f"sqlite:///{tmp_path}/second.db"
    run("--apply", command="import-ironic", source=there, service=second)
    assert fleet(database) == fleet(second)


def test_a_fleet_made_here_arrives_again_as_it_was(
    run, view, database, there, migrated_sqlite, tmp_path
):
    add_fleet(view)
    status, items, _ = run("--apply", "--yes")
    assert (0, {"exported"}) == (status, {item["outcome"] for item in items.values()})
    (node,) = rows(there, "nodes")
    assert {"redfish_address": "https://192.0.2.1", "redfish_password": "pass"} == json.loads(
        node["driver_info"]
    )
    assert {"is_whole_disk_image": True} == json.loads(node["driver_internal_info"])
    assert ("{}", "{}", "{}", None, ironic_39.VERSIONS["nodes"]) == tuple(
        node[name]
        for name in ("clean_step", "deploy_step", "service_step", "reservation", "version")
    )
    (allocation,) = rows(there, "allocations")
    assert (node["id"], node["allocation_id"]) == (allocation["node_id"], allocation["id"])
    shutil.copy(migrated_sqlite, tmp_path / "second.db")
    second = f"sqlite:///{tmp_path}/second.db"
    run("--apply", command="import-ironic", source=there, service=second)
    assert [
        (values | {"driver_internal_info": {"is_whole_disk_image": True}} if "driver_internal_info" in values
         else values, parts)
        for values, parts in fleet(database)
    ] == fleet(second)  # fmt: skip
    before = dump(there)
    assert {"there already"} == {item["outcome"] for item in run("--apply", "--yes")[1].values()}
    assert before == dump(there)


def test_an_untouched_node_stays_in_ironic_as_it_was_there(run, ironic):
    before = dump(ironic)
    status, items, _ = run("--apply", "--yes", "--overwrite", source=ironic)
    assert before == dump(ironic)
    outcomes = [item["outcome"] for item in items.values()]
    assert (1, 18, 2) == (status, outcomes.count("there already"), outcomes.count("only in Ironic"))


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_ironics_names_of_drivers_stay_for_untouched_nodes(run, tmp_path, view):
    ironic = recorded(tmp_path / "ironic.db")
    change(
        ironic,
        "UPDATE nodes SET driver = 'ilo', boot_interface = 'ilo-ipxe', power_interface = 'ilo',"
        " management_interface = 'ilo', console_interface = 'ilo', deploy_interface = 'direct',"
        " network_interface = 'ironic-networking', inspect_interface = 'no-inspect',"
        """ driver_info = '{"ilo_address": "192.0.2.7", "ilo_password": "x"}' WHERE id = 1""",
    )
    _, items, _ = run(
        "--apply",
        "--interface",
        "network:ironic-networking=noop",
        command="import-ironic",
        source=ironic,
    )
    assert "imported" == items[ENROLLED]["outcome"]
    options = ("--apply", "--yes", "--interface", "network:noop=ironic-networking")
    _, items, _ = run(*options, source=ironic)
    # the option concerns all nodes with noop, also those that had it in Ironic
    assert "there already" == items[ENROLLED]["outcome"]
    with view.runtime.transaction() as session:
        session.query(Node).filter_by(uuid=ENROLLED).one().description = "ours"
    _, items, _ = run("--apply", "--yes", "--overwrite", source=ironic)
    assert "network_interface ironic-networking is not served" in items[ENROLLED]["detail"]
    node = rows(ironic, "nodes", "*", "id = 1")[0]
    assert ("redfish", "redfish", "noop", "ours") == tuple(
        node[name] for name in ("driver", "power_interface", "network_interface", "description")
    )
    assert {"redfish_address": "192.0.2.7", "redfish_password": "x"} == json.loads(
        node["driver_info"]
    )


def test_other_content_in_ironic_is_changed_with_overwrite_only(run, ironic, view):
    with view.runtime.transaction() as session:
        node = session.query(Node).filter_by(uuid=ACTIVE).one()
        node.description = "ours"
        session.query(Portgroup).filter_by(node_id=node.id).one().mode = "balance-rr"
        session.add(NodeHistory(node_id=node.id, uuid=ENROLLED, created_at=datetime(2026, 3, 1),
                                severity="INFO", event_type="provisioning", event="later"))  # fmt: skip
        session.query(Runbook).one().traits = ["CUSTOM_NEW"]
        session.query(Allocation).filter_by(node_id=None).one().last_error = "new"
        session.delete(session.query(DeployTemplate).one())
    before = dump(ironic)
    status, items, _ = run("--apply", "--yes", source=ironic)
    assert before == dump(ironic)
    assert (1, "there, with other content", "description, portgroup, node history") == (
        status, items[ACTIVE]["outcome"], items[ACTIVE]["detail"],
    )  # fmt: skip
    assert {"only in Ironic"} == {
        item["outcome"] for item in items.values() if item["kind"] == "deploy template"
    }
    _, items, _ = run("--overwrite", source=ironic)
    assert "would be updated" == items[ACTIVE]["outcome"]
    assert before == dump(ironic)
    _, items, _ = run("--overwrite", "--apply", "--yes", source=ironic)
    updated = {item["kind"] for item in items.values() if item["outcome"] == "updated"}
    assert {"node", "runbook", "allocation"} == updated
    (row,) = rows(ironic, "nodes", "*", f"uuid = '{ACTIVE}'")
    (earlier,) = [node for node in before["nodes"] if node["uuid"] == ACTIVE]
    assert ("ours", earlier["id"]) == (row["description"], row["id"])
    events = rows(ironic, "node_history", "event", f"node_id = {row['id']}")
    assert ["it broke", "later"] == sorted(event["event"] for event in events)
    assert [{"trait": "CUSTOM_NEW"}] == rows(ironic, "runbook_traits", "trait")
    _, items, _ = run("--apply", "--yes", source=ironic)
    assert {"there already", "only in Ironic"} == {item["outcome"] for item in items.values()}


def test_a_report_changes_nothing(run, ironic, there):
    before = dump(there)
    status, items, _ = run()
    assert (0, {"would be exported"}) == (status, {item["outcome"] for item in items.values()})
    assert before == dump(there)


def test_sealed_secrets_are_written_in_plain_and_the_export_is_recorded(run, there, database):
    sealing = Inside(database, INGOT_DATABASE_SECRETS_KEY=KEY)
    data_keys.start(sealing.settings.database)
    sealing.close()
    sealing = Inside(database, INGOT_DATABASE_SECRETS_KEY=KEY)
    add_fleet(sealing)
    run("--apply", "--yes", INGOT_DATABASE_SECRETS_KEY=KEY)
    assert "pass" == json.loads(rows(there, "nodes")[0]["driver_info"])["redfish_password"]
    (target,) = rows(there, "volume_targets")
    assert "volume's" == json.loads(target["properties"])["auth_password"]
    with sealing.runtime.reading() as session:
        record = session.query(AuditRecord).filter_by(action="export/ironic").one()
        assert str(there) in record.target
    sealing.close()


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


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_run_after_a_death_goes_on(run, view, database, there, ironic):
    environ = {
        **os.environ, "INGOT_CONFIG": "", "INGOT_DATABASE_CONNECTION": database,
        "INGOT_KILL_POINTS": "export:exporting:node=die",
    }  # fmt: skip
    command = [
        sys.executable, "-m", "workers.ingot", "export-ironic", f"sqlite:///{there}", "--apply", "--yes",
    ]  # fmt: skip
    assert -9 == subprocess.run(command, env=environ, check=False, timeout=120).returncode
    assert [] == rows(there, "nodes") == rows(there, "ports")
    outcomes = [item["outcome"] for item in run("--apply", "--yes")[1].values()]
    assert (4, 14) == tuple(map(outcomes.count, ("there already", "exported")))


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_ironic_reads_what_is_exported(run, view, tmp_path):
    ironic = real_ironic.Ironic(tmp_path, f"sqlite:///{tmp_path}/real.db")
    ironic.create_schema()
    add_fleet(view)
    status, items, _ = run("--apply", "--yes", source=tmp_path / "real.db")
    assert (0, {"exported"}) == (status, {item["outcome"] for item in items.values()})

    script = Path(real_ironic.__file__).with_name("ironic_objects.py")
    command = [ironic.programs / "python", "-P", script, ironic.settings]
    output = subprocess.run(command, check=True, capture_output=True, timeout=300).stdout
    answer = json.loads(output)
    objects = answer["objects"]
    counts = {name: len(items) for name, items in objects.items()}
    assert counts == dict.fromkeys(counts, 1) | {"Port": 2, "TraitList": 2}
    node, template = objects["Node"][0], objects["DeployTemplate"][0]
    assert ("pass", "active", {"is_whole_disk_image": True}) == (
        node["driver_info"]["redfish_password"], node["provision_state"], node["driver_internal_info"],
    )  # fmt: skip
    assert [1, 9] == [step["priority"] for step in template["steps"]]
    assert answer["versions"] == ironic_39.VERSIONS
    types = answer["types"]
    types["fake-hardware"] = ironic_39.HARDWARE_TYPES["fake-hardware"]  # it checks none
    assert {name: {kind: [*names] for kind, names in kinds.items()} for name, kinds in types.items()} == {
        name: {kind: [*names] for kind, names in kinds.items()}
        for name, kinds in ironic_39.HARDWARE_TYPES.items()
    }  # fmt: skip
