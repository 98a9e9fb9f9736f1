"""`ingot import-ironic`: nodes of Ironic in each state, from a database that Ironic 39 has written."""

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from typer.testing import CliRunner

from app.lifecycle.provision_states import Kind, of_kind
from app.models import Allocation, Node, NodeHistory, NodeTrait, Port, Portgroup, VolumeTarget
from app.models.audit import AuditRecord
from app.rows import data_keys
from tests.compare import ironic as real_ironic
from tests.support.inside import Inside
from tests.support.ironic_databases import change, recorded
from workers import cli
from workers.moving import driver_mapping
from workers.moving.ironic_database import RUNNING

KEY = base64.b64encode(bytes(32)).decode()
ACTIVE = "00000000-0000-4000-8000-000000000103"
ENROLLED = "00000000-0000-4000-8000-000000000100"


@pytest.fixture
def ironic(tmp_path):
    """Path of a copy of the recorded database."""
    return recorded(tmp_path / "ironic.db")


@pytest.fixture
def run(database, ironic):
    """Run the command; return its exit status, its items by UUID, and its standard error."""

    def call(*words, source=f"sqlite:///{ironic}", **environ):
        env = {
            "INGOT_CONFIG": "", "INGOT_DATABASE_CONNECTION": database,
            "INGOT_ENABLED_HARDWARE_TYPES": "fake-hardware,redfish", **environ,
        }  # fmt: skip
        words = ["import-ironic", *([source] if source else []), "-o", "json", *words]
        result = CliRunner(env=env).invoke(cli.app, words)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return (
            result.exit_code,
            {item["uuid"]: item for item in json.loads(result.stdout)},
            result.stderr,
        )

    return call


def content(database, **environ):
    """Return all rows of all tables, as they are stored."""
    view = Inside(database, **environ)
    try:
        with view.runtime.engine.connect() as connection:
            names = sorted(inspect(connection).get_table_names())
            return {name: list(connection.execute(text(f"SELECT * FROM {name}"))) for name in names}
    finally:
        view.close()


def test_settled_nodes_arrive_with_all_that_belongs_to_them(run, database, ironic):
    status, items, _ = run("--apply")
    view = Inside(database)
    try:
        with view.runtime.reading() as session:
            nodes = {node.provision_state: node for node in session.query(Node)}
            assert of_kind(Kind.STABLE, Kind.FAILED) == set(nodes)
            node = nodes["active"]
            assert (ACTIVE, "node-103", "rack1", "project-1", "project-2", "blue") == (
                node.uuid, node.name, node.conductor_group, node.owner, node.lessee, node.shard,
            )  # fmt: skip
            assert "pass-103" == node.driver_info["fake_password"]
            assert "00000000-0000-4000-8000-000000000001" == node.chassis_uuid
            assert {"is_whole_disk_image", "last_power_state_change"} == set(
                node.driver_internal_info
            )
            port, group = (
                session.query(Port).filter_by(node_id=node.id).one(),
                session.query(Portgroup),
            )
            assert group.filter_by(node_id=node.id).one().id == port.portgroup_id
            assert (
                "00000000-0000-4000-8000-000000003103" == port.internal_info["tenant_vif_port_id"]
            )
            volume = session.query(VolumeTarget).filter_by(node_id=node.id).one()
            assert "volume's" == volume.properties["auth_password"]
            traits = session.query(NodeTrait.trait).filter_by(node_id=node.id)
            assert {"CUSTOM_GPU", "HW_CPU_X86_VMX"} == {trait for (trait,) in traits}
            assert "it broke" == session.query(NodeHistory).filter_by(node_id=node.id).one().event
            allocation = session.query(Allocation).filter_by(node_id=node.id).one()
            assert (node.instance_uuid, "active") == (allocation.uuid, allocation.state)
            failed = nodes["clean failed"]
            assert (True, "clean failure", "available") == (
                failed.maintenance, failed.fault, failed.target_provision_state,
            )  # fmt: skip
    finally:
        view.close()
    assert 1 == status
    details = {
        item["provision_state"]: item["detail"]
        for item in items.values()
        if item["outcome"] == "skipped"
    }
    assert {"clean wait", "wait call-back"} == set(details)
    assert "abort it" in details["clean wait"]


def test_each_import_is_recorded(run, database):
    run("--apply")
    view = Inside(database)
    with view.runtime.reading() as session:
        actions = session.query(AuditRecord.action).filter_by(target=ACTIVE).all()
    view.close()
    assert [("import/node",)] == actions


def test_a_second_run_changes_nothing(run, database):
    run("--apply")
    first_content = content(database)
    _, items, _ = run("--apply")
    assert first_content == content(database)
    assert {"there already", "skipped"} == {item["outcome"] for item in items.values()}


def test_a_report_changes_nothing(run, database):
    first_content = content(database)
    _, items, _ = run()
    assert first_content == content(database)
    assert {"would be imported", "skipped"} == {item["outcome"] for item in items.values()}


def test_secrets_are_sealed(run, database):
    view = Inside(database, INGOT_DATABASE_SECRETS_KEY=KEY)
    data_keys.start(view.settings.database)
    view.close()
    run("--apply", INGOT_DATABASE_SECRETS_KEY=KEY)
    stored = str(content(database, INGOT_DATABASE_SECRETS_KEY=KEY))
    assert "node-103" in stored
    assert "pass-103" not in stored
    assert "volume's" not in stored


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_run_after_a_death_goes_on(run, database, ironic, tmp_path):
    environ = {
        **os.environ, "INGOT_CONFIG": "", "INGOT_DATABASE_CONNECTION": database,
        "INGOT_ENABLED_HARDWARE_TYPES": "fake-hardware",
        "INGOT_KILL_POINTS": "import:importing:node=die",
    }  # fmt: skip
    command = [
        sys.executable,
        "-m",
        "workers.ingot",
        "import-ironic",
        f"sqlite:///{ironic}",
        "--apply",
    ]
    assert -9 == subprocess.run(command, env=environ, check=False, timeout=120).returncode

    _, items, _ = run("--apply")
    outcomes = [item["outcome"] for item in items.values()]
    assert (4, 14, 2) == tuple(map(outcomes.count, ("there already", "imported", "skipped")))


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_running_ironic_is_refused(run, ironic):
    change(ironic, "UPDATE conductors SET online = 1, updated_at = datetime('now')")
    with pytest.raises(cli.StartError, match="Ironic is running: conductor rack-1"):
        run("--apply")
    _, items, warning = run()
    assert "would be imported" == items[ACTIVE]["outcome"]
    assert "rack-1" in warning
    assert "imported" == run("--apply", "--force")[1][ACTIVE]["outcome"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "conductor",
    [
        f"online = 1, updated_at = datetime('now', '-{RUNNING + 5} seconds')",
        "online = 0, updated_at = datetime('now')",
    ],
)
def test_a_dead_or_stopped_conductor_is_no_obstacle(run, ironic, conductor):
    change(ironic, f"UPDATE conductors SET {conductor}")
    assert "imported" == run("--apply")[1][ACTIVE]["outcome"]


def test_a_node_with_other_content_is_left_as_it_is(run, database):
    run("--apply")
    view = Inside(database)
    with view.runtime.transaction() as session:
        session.query(Node).filter_by(uuid=ACTIVE).one().description = "ours"
        session.query(Portgroup).filter_by(name="bond-103").one().mode = "balance-rr"
    first_content = content(database)
    _, items, _ = run("--apply")
    view.close()
    assert first_content == content(database)
    assert ("there, with other content", "description, portgroup") == (
        items[ACTIVE]["outcome"], items[ACTIVE]["detail"],
    )  # fmt: skip


def test_a_value_of_another_node_is_reported(run, ironic):
    run("--apply")
    change(
        ironic,
        "UPDATE nodes SET uuid = '00000000-0000-4000-8000-00000000ffff' WHERE name = 'node-100'",
    )
    item = run("--apply")[1]["00000000-0000-4000-8000-00000000ffff"]
    assert "skipped" == item["outcome"]
    assert "name" in item["detail"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ("UPDATE nodes SET reservation = 'rack-9'", "locked by conductor rack-9"),
        ("UPDATE nodes SET target_power_state = 'power off'", "its power is on the way"),
        ("UPDATE nodes SET provision_state = 'imaging'", "there is no such state"),
        ("UPDATE nodes SET provision_state = 'clean hold'", "unhold or abort it"),
        ("UPDATE nodes SET driver = 'snmp'", "hardware type snmp is not enabled here"),
        ("UPDATE nodes SET network_interface = 'other'", "--interface network:other=NAME"),
        ("UPDATE node_history SET severity = 'NOT SERIOUS'", "severity has more than 8 characters"),
        ("UPDATE bios_settings SET upper_bound = 3000000000", "upper_bound has more than 32 bits"),
        ("UPDATE allocations SET node_id = 1, state = 'allocating'", "looking for a node"),
    ],
)  # fmt: skip
def test_a_node_that_cannot_move_is_named_with_the_reason(run, ironic, database, changes, detail):
    change(ironic, changes)
    status, items, _ = run("--apply")
    assert (1, "skipped") == (status, items[ENROLLED]["outcome"])
    assert detail in items[ENROLLED]["detail"]
    assert ENROLLED not in str(content(database)["nodes"])


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_changes_on_the_way_are_told(run, ironic):
    change(
        ironic,
        "UPDATE nodes SET driver = 'ilo', network_interface = 'other', console_enabled = 1,"
        " console_interface = 'ilo', boot_interface = 'ilo-ipxe', deploy_interface = 'direct',"
        " power_interface = 'ilo', management_interface = 'ilo',"
        """ driver_info = '{"ilo_address": "192.0.2.7", "ilo_password": "x"}'""",
        "INSERT INTO node_tags (node_id, tag) VALUES (1, 'old')",
        "UPDATE inspection_rules SET scope = 'lab'",
    )
    _, items, _ = run("--interface", "network:other=noop")
    detail = items[ENROLLED]["detail"]
    for note in (
        "driver ilo -> redfish", "boot_interface ilo-ipxe -> ipxe", "power_interface ilo -> redfish",
        "console_interface ilo -> no-console (without console)", "network_interface other -> noop",
        "driver_info ilo_password -> redfish_password", "console_enabled -> false",
        "without tags old",
    ):  # fmt: skip
        assert note in detail
    assert "scope lab" in items["00000000-0000-4000-8000-000000000004"]["detail"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_an_older_schema_is_read(run, ironic):
    change(
        ironic, "DROP TABLE runbook_steps", "DROP TABLE runbook_traits", "DROP TABLE runbooks",
        "DROP TABLE inspection_rules", "ALTER TABLE nodes DROP COLUMN health",
    )  # fmt: skip
    assert "imported" == run("--apply")[1][ACTIVE]["outcome"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_url_comes_from_ironic_conf_or_the_environment(run, ironic, tmp_path):
    url = f"sqlite:///{ironic}"
    (tmp_path / "ironic.conf").write_text(f"[database]\nconnection = {url}\n")
    (tmp_path / "url").write_text(f"{url}\n")
    assert ACTIVE in run(source=str(tmp_path / "ironic.conf"))[1]
    assert ACTIVE in run(source=None, IRONIC_DATABASE_URL=url)[1]
    assert ACTIVE in run(source=None, IRONIC_DATABASE_URL_FILE=str(tmp_path / "url"))[1]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("mysql+pymysql://ironic:pw@db/ironic", "can read a password on a command line"),
        ("postgresql://db/ironic?password=pw", "can read a password on a command line"),
        ("mysql://db/ironic", "pip install pymysql"),
        ("oracle://db/ironic", "oracle is none of sqlite"),
        ("sqlite:////nowhere/ironic.db", "unable to open database file"),
        ("nonsense", "not a database URL"),
        ("/nowhere/ironic.conf", "No such file"),
        (None, "IRONIC_DATABASE_URL"),
    ],
)
def test_a_source_that_cannot_be_used_is_one_line(run, monkeypatch, source, message):
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises((cli.StartError, cli.SettingsError), match=message) as error:
        run(source=source)
    assert "pw" not in str(error.value)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_another_database_is_refused(run, database):
    with pytest.raises(cli.StartError, match="no database of Ironic: it has no table"):
        run(source=database)


@pytest.mark.parametrize(
    ("row", "types", "driver", "notes"),
    [
        ({"driver": "irmc"}, "redfish", "redfish", ["driver irmc -> redfish"]),
        ({"driver": "idrac", "power_interface": "idrac-wsman"}, "idrac", "idrac",
         ["power_interface idrac-wsman -> idrac-redfish", "driver_info drac_address -> redfish_address"]),
    ],
)  # fmt: skip
def test_hardware_types_are_mapped(row, types, driver, notes):
    from drivers.builtin import HARDWARE_TYPES

    hardware_types = {
        hardware_type.name: {
            kind: [cls.name for cls in classes]
            for kind, classes in hardware_type.interfaces.items()
        }
        for hardware_type in HARDWARE_TYPES
        if hardware_type.name == types
    }
    interfaces = {f"{kind}_interface": names[0] for kind, names in hardware_types[types].items()}
    info = {"drac_address": "192.0.2.7"} if types == "idrac" else {}
    mapped = driver_mapping.mapped({**interfaces, **row}, info, hardware_types, {})
    assert (driver, notes) == (mapped.driver, [*mapped.notes])


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_database_that_ironic_writes_now(run, tmp_path):
    ironic = real_ironic.Ironic(tmp_path, f"sqlite:///{tmp_path}/real.db")
    ironic.create_schema()
    rows = [
        ironic.programs / "python",
        "-P",
        Path(real_ironic.__file__).with_name("ironic_rows.py"),
        ironic.settings,
    ]
    output = subprocess.run(rows, check=True, capture_output=True, timeout=300).stdout
    nodes = json.loads(output)
    shutil.copy(tmp_path / "real.db", tmp_path / "before.db")

    _, items, _ = run("--apply", source=str(ironic.settings))
    settled = of_kind(Kind.STABLE, Kind.FAILED)
    assert {state: "imported" if state in settled else "skipped" for state in nodes} == {
        state: items[uuid]["outcome"] for state, uuid in nodes.items()
    }
    assert (tmp_path / "before.db").read_bytes() == (tmp_path / "real.db").read_bytes()
