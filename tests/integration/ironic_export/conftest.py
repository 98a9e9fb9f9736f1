"""Fleets of this service and of Ironic, and the commands that move nodes between them."""

import json
from datetime import datetime

import pytest
from typer.testing import CliRunner

from app.models import (
    Allocation,
    BiosSetting,
    Chassis,
    DeployTemplate,
    FirmwareComponent,
    InspectionRule,
    Node,
    NodeHistory,
    NodeInventory,
    NodeTrait,
    Port,
    Portgroup,
    Runbook,
    VolumeConnector,
    VolumeTarget,
)
from tests.support.inside import Inside
from tests.support.ironic_databases import empty, recorded, rows
from workers import cli
from workers.moving import bundles, translation

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
            contents = []
            for model, parts in ((Node, translation.PARTS), *((model, ()) for model in RESOURCES)):
                for (uuid,) in session.query(model.uuid).order_by(model.uuid):
                    bundle = bundles.stored(session, model, uuid, parts)
                    contents.append((without_id(bundle.values), [
                        sorted((without_id(part) for part in bundle.parts[part_model]), key=repr)
                        for part_model in parts
                    ]))  # fmt: skip
            return contents
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
