"""Content of an export by `ingot export-ironic`: nodes on their way back, in the schema of Ironic 39."""

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from app.models import (
    Allocation,
    DeployTemplate,
    Node,
    NodeHistory,
    Portgroup,
    Runbook,
)
from app.models.audit import AuditRecord
from app.rows import data_keys
from tests.compare import ironic as real_ironic
from tests.integration.ironic_export.conftest import (
    ACTIVE,
    ENROLLED,
    KEY,
    add_fleet,
    content,
    dump,
    fleet,
)
from tests.support.inside import Inside
from tests.support.ironic_databases import change, recorded, rows
from workers.moving import ironic_39


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
    first_dump = dump(there)
    assert {"there already"} == {item["outcome"] for item in run("--apply", "--yes")[1].values()}
    assert first_dump == dump(there)


def test_an_untouched_node_stays_in_ironic_as_it_was_there(run, ironic):
    first_dump = dump(ironic)
    status, items, _ = run("--apply", "--yes", "--overwrite", source=ironic)
    assert first_dump == dump(ironic)
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
    first_dump = dump(ironic)
    status, items, _ = run("--apply", "--yes", source=ironic)
    assert first_dump == dump(ironic)
    assert (1, "there, with other content", "description, portgroup, node history") == (
        status, items[ACTIVE]["outcome"], items[ACTIVE]["detail"],
    )  # fmt: skip
    assert {"only in Ironic"} == {
        item["outcome"] for item in items.values() if item["kind"] == "deploy template"
    }
    _, items, _ = run("--overwrite", source=ironic)
    assert "would be updated" == items[ACTIVE]["outcome"]
    assert first_dump == dump(ironic)
    _, items, _ = run("--overwrite", "--apply", "--yes", source=ironic)
    updated = {item["kind"] for item in items.values() if item["outcome"] == "updated"}
    assert {"node", "runbook", "allocation"} == updated
    (row,) = rows(ironic, "nodes", "*", f"uuid = '{ACTIVE}'")
    (earlier,) = [node for node in first_dump["nodes"] if node["uuid"] == ACTIVE]
    assert ("ours", earlier["id"]) == (row["description"], row["id"])
    events = rows(ironic, "node_history", "event", f"node_id = {row['id']}")
    assert ["it broke", "later"] == sorted(event["event"] for event in events)
    assert [{"trait": "CUSTOM_NEW"}] == rows(ironic, "runbook_traits", "trait")
    _, items, _ = run("--apply", "--yes", source=ironic)
    assert {"there already", "only in Ironic"} == {item["outcome"] for item in items.values()}


def test_a_report_changes_nothing(run, ironic, there):
    first_dump = dump(there)
    status, items, _ = run()
    assert (0, {"would be exported"}) == (status, {item["outcome"] for item in items.values()})
    assert first_dump == dump(there)


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
