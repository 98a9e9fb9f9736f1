"""
Every request gets an answer that the document at /openapi.json describes, and never a 5xx.

`make test` tries a few fixed examples of each operation; `make fuzz` runs for FUZZ_SECONDS with
random examples (FUZZ_SEED repeats those of an earlier run).
"""

import os
import random
import re
import time
from datetime import datetime
from itertools import count
from uuid import UUID, uuid5

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, strategies
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks
from sqlalchemy import insert, select, update

from app.api.fleet import event_stream
from app.db.clock import utcnow
from app.inventory import hardware_inventory, nodes
from app.models import (
    AgentRecord,
    Base,
    BiosSetting,
    Conductor,
    FirmwareComponent,
    NodeHistory,
    NodeSearch,
    Operation,
)

from .direct_calls import DirectCalls

HEADER = "X-OpenStack-Ironic-API-Version"
VERSIONS = ("1.115", "1.61", "1.92", "1.31", "1.8", "1.1")
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
EXAMPLES = 3
SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("FUZZ_SEED", "0")) or (random.getrandbits(32) if SECONDS else 1)
KINDS = ("sqlite", "postgresql") if SECONDS else ("sqlite",)
NAMESPACE = UUID(int=0)
STATES = {
    "n1": "manageable",
    "n2": "available",
    "n3": "active",
    "n4": "clean failed",
    "n5": "enroll",
}
STEP = {"interface": "deploy", "step": "erase_devices", "args": {}}
TRAIT = "CUSTOM_GOOD"
MAC = "52:54:00:00:00:01"
#: path segment before a parameter -> names and keys of existing resources
KNOWN = {
    "nodes": STATES, "heartbeat": STATES, "redfish_events": STATES, "chassis": ["case"], "portgroups": ["group"],
    "ports": ["port"], "connectors": ["connector"], "targets": ["target"],
    "allocations": ["asked"], "deploy_templates": [TRAIT], "runbooks": ["book"],
    "rollouts": ["rollout"], "inspection_rules": ["rule"], "webhooks": ["hook"],
    "holds": ["hold"], "networks": ["net"], "switches": ["leaf"], "baselines": ["base"], "quotas": ["quota"],
    "drivers": ["fake-hardware"], "conductors": ["rack-1"],
    "traits": [TRAIT, "HW_CPU_X86_VMX"], "vifs": ["vif-1"], "bios": ["BootMode"],
    "history": ["entry"], "operations": ["operation"], "agent-logs": ["log.tar.gz"],
    "indicators": ["system@chassis", "power@system"],
    "vendor_passthru": ["first_method", "second_method", "third_method_sync"],
}  # fmt: skip


def uuid(name):
    """Return the UUID of a resource by its key."""
    return str(uuid5(NAMESPACE, name))


#: path -> a valid body; the examples are bodies with a few changed members
RIGHT = {
    "/v1/chassis": {"description": "of steel"},
    "/v1/nodes": {"driver": "fake-hardware", "resource_class": "baremetal"},
    "/v1/portgroups": {"node_uuid": uuid("n1")},
    "/v1/ports": {"node_uuid": uuid("n1"), "address": "52:54:00:00:00:02"},
    "/v1/volume/connectors": {"node_uuid": uuid("n1"), "type": "iqn", "connector_id": "iqn.new"},
    "/v1/volume/targets":
        {"node_uuid": uuid("n1"), "volume_type": "iscsi", "volume_id": "v2", "boot_index": 1},
    "/v1/allocations": {"resource_class": "baremetal"},
    "/v1/deploy_templates": {"name": "CUSTOM_NEW", "steps": [STEP | {"priority": 10}]},
    "/v1/runbooks": {"name": "CUSTOM_NEW", "steps": [STEP | {"order": 1}]},
    "/v1/rollouts": {
        "target": "power on", "nodes": {"owner": "us"},
        "strategy": {"max_unavailable": "50%", "group_by": "shard", "canary": 1},
    },
    "/v1/inspection_rules": {"actions": [{"op": "fail", "args": {"msg": "no"}}]},
    "/v1/webhooks": {"name": "new", "url": "http://receiver.test/", "secret": "0123456789abcdef"},
    "/v1/networks": {"name": "new", "vlan": 200, "tagged_vlans": [30]},
    "/v1/switches": {
        "name": "new", "switch_id": "0c:c4:7a:00:00:01", "device_type": "cisco_ios",
        "address": "192.0.2.7", "username": "ingot", "password": "secret", "ports": ["Gi1/*"],
        "host_key":
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1Q2yGq0oR0rmbcuyHk0bLrV0R4t8UO3zJp3y1a0yNq",
    },
    "/v1/baselines": {
        "name": "new", "selection": "resource_class=baremetal", "acceptance": True,
        "expected": [{"field": "memory_mb", "operator": ">=", "value": 65536}],
    },
    "/v1/quotas": {"project": "new", "node_limit": 7},
    "/v1/holds": {"node_uuid": uuid("n4"), "kind": "scheduling", "reason": "moves"},
    "/v1/nodes/{ident}/holds": {"kind": "scheduling", "reason": "moves"},
    "/v1/webhooks/{ident}/replay": {"after": 0},
    "/v1/heartbeat/{ident}": {"callback_url": "http://127.0.0.1:9", "agent_token": "secret"},
    "/v1/continue_inspection": {"inventory": {"interfaces": [{"mac_address": MAC}]}},
    "/v1/nodes/{ident}/vmedia": {"device_type": "cdrom", "image_url": "http://127.0.0.1/image"},
    "/v1/nodes/{ident}/vendor_passthru/{function}": {"bar": "meow"},
}  # fmt: skip


def populate(api):
    """Create one resource of each kind, and nodes in several states."""

    def make(path, key, **fields):
        body = RIGHT[f"/v1/{path}"] | {"uuid": uuid(key)} | fields
        answer = api("POST", f"/v1/{path}", body)
        assert 201 == answer.status_code, answer.text

    make("chassis", "case")
    for name, state in STATES.items():
        make("nodes", name, name=name, chassis_uuid=uuid("case"), owner="us", shard="left",
             vendor_interface="fake")  # fmt: skip
        api.set(uuid(name), provision_state=state)
    make("portgroups", "group", name="group")
    make("ports", "port", name="port", address=MAC, portgroup_uuid=uuid("group"))
    make("volume/connectors", "connector", connector_id="iqn.here")
    make("volume/targets", "target", boot_index=0)
    make("allocations", "asked", name="asked")
    make("deploy_templates", "template", name=TRAIT)
    make("runbooks", "book", name="book")
    make("rollouts", "rollout")
    make("inspection_rules", "rule")
    make("webhooks", "hook", name="hook")
    make("holds", "hold")
    make("baselines", "base", name="base")
    make("quotas", "quota", project="us")
    make("networks", "net", name="net", vlan=201)
    make("switches", "leaf", name="leaf", switch_id="0c:c4:7a:00:00:02")
    assert 204 == api("PUT", "/v1/nodes/n1/traits", {"traits": [TRAIT]}).status_code
    assert 202 == api("PUT", "/v1/nodes/n5/states/provision", {"target": "manage"}).status_code
    with api.runtime.transaction() as session:
        session.execute(
            update(Conductor).values(heartbeat_at=datetime(2100, 1, 1))
        )  # its heartbeat never expires
        node = nodes.find(session, "n1")
        session.add(
            BiosSetting(node_id=node.id, name="BootMode", value="Uefi", updated_at=utcnow())
        )
        session.add(AgentRecord(node_id=node.id, token="secret"))
        session.add(FirmwareComponent(node_id=node.id, component="bmc", initial_version="1"))
        session.add(NodeHistory(node_id=node.id, uuid=uuid("entry"), created_at=utcnow(),
                                severity="ERROR", event_type="deploying", event="x" * 300))  # fmt: skip
        session.execute(update(Operation).values(uuid=uuid("operation")))
        hardware_inventory.store(session, node, {"cpu": {}}, {})


@pytest.fixture
def restore(api):
    """Restore the database between examples."""
    api.runtime.calls = DirectCalls(api.runtime)
    populate(api)
    with api.runtime.reading() as session:
        rows = {table: [dict(row) for row in session.execute(select(table)).mappings()]
                for table in Base.metadata.sorted_tables}  # fmt: skip

    def restore():
        with api.runtime.transaction() as session:
            for table in reversed(rows):
                session.execute(table.delete())
            for table, table_rows in rows.items():
                if table_rows and table is not NodeSearch.__table__:  # triggers write it
                    session.execute(insert(table), table_rows)

    yield restore
    api.runtime.calls = None


def cases(operation):
    """Strategy of valid and invalid requests for an operation, mostly about existing resources."""
    positive, negative = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
    known_values = {
        name: [value for key in KNOWN[collection] for value in (key, uuid(key))]
        for collection, name in re.findall(r"(\w+)/\{(\w+)\}", operation.path)
        if collection in KNOWN
    }

    @strategies.composite
    def drawn(draw):
        case = draw(
            operation.as_strategy(draw(strategies.sampled_from([positive] * 2 + [negative])))
        )
        right = RIGHT.get(operation.path)
        if right and isinstance(case.body, dict) and draw(strategies.integers(0, 9)) < 8:
            fields = draw(strategies.lists(strategies.sampled_from([*case.body, ""]), max_size=2))
            case.body = right | {name: case.body[name] for name in fields if name}
        for name, values in known_values.items():
            if draw(strategies.integers(0, 9)) < 8:
                case.path_parameters[name] = draw(strategies.sampled_from(values))
        if draw(strategies.integers(0, 9)) < 9:
            version = draw(strategies.sampled_from(VERSIONS))
            case.headers = {**(case.headers or {}), HEADER: version}
        return case

    return drawn()


def found_in(operation, examples, seed):
    """Send requests; return one line for each kind of wrong answer."""
    wrong = {}

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=examples, phases=[Phase.generate], database=None, deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @hypothesis.given(cases(operation))
    def ask(case):
        answer = case.call()
        try:
            case.validate_response(answer, checks=CHECKS)
        except FailureGroup as group:
            for failure in group.exceptions:
                report = f"{operation.label}: {failure}\n{case.as_curl_command()}\n{answer.text}"
                wrong.setdefault((operation.label, type(failure), str(failure)[:60]), report)

    ask()
    return list(wrong.values())


@pytest.fixture(autouse=True)
def short_streams(monkeypatch):
    """Streams end after their first heartbeat."""
    monkeypatch.setattr(event_stream, "HEARTBEAT", 0.01)
    monkeypatch.setattr(event_stream, "PATIENCE", -1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_is_documented(api, restore):
    schema = schemathesis.openapi.from_wsgi("/openapi.json", api.client.application)
    operations = [result.ok() for result in schema.get_all_operations()]
    end, wrong = time.monotonic() + SECONDS, []
    for lap in count():
        for operation in operations:
            wrong += found_in(operation, EXAMPLES, SEED + lap)
            if operation.method != "get":
                restore()
        if time.monotonic() >= end:
            break

    assert [] == wrong, f"FUZZ_SEED={SEED}\n" + "\n\n".join(wrong)
