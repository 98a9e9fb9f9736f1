"""Sanitation reports of cleanings and tear-downs, from the agent's answers to a verified file."""

import base64
import json
from contextlib import ExitStack
from uuid import uuid4

import orjson
import pytest
from sqlalchemy import func, select, update
from typer.testing import CliRunner

from app.audit import sanitation_proofs
from app.db.clock import after
from app.engine import operations, transitions
from app.inventory import nodes
from app.models import NodeInventory, SanitationReport
from app.rows import data_keys
from drivers.core.errors import Refused
from tests.integration.harness import AcmePower, Harness, requested
from tests.support.inside import Inside
from tests.unit.drivers.machines import scripted_agent
from workers import cli
from workers.periodic import pruning

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)

KEY = base64.b64encode(b"k" * 32).decode()
DISKS = [
    {"name": "/dev/sda", "serial": "S-1\x07", "wwn": "0x1", "model": "M", "size": 10, "more": {}},
    {"name": "/dev/nvme0n1", "serial": "S-2", "wwn": None, "model": 7, "size": "big"},
]
ERASED = {"/dev/sda": None, "/dev/nvme0n1": None}
ERASE = requested("deploy", "erase_devices")


@pytest.fixture
def harness(database):
    environ = {"INGOT_AGENT_REQUIRE_TLS": "false", "INGOT_DATABASE_SECRETS_KEY": KEY}
    with ExitStack() as stack:
        first_view = Inside(database, **environ)
        data_keys.start(first_view.settings.database)
        first_view.close()
        inside = first_view.another()
        stack.callback(inside.close)
        harness = Harness(inside, stack.enter_context(scripted_agent()))
        harness.offer("clean", ("deploy", "erase_devices", 10, {"abortable": True}))
        harness.agent.answers["poll.get_hardware_info"] = {"disks": DISKS}
        yield harness


def rows(harness):
    with harness.inside.runtime.reading() as session:
        return session.scalars(select(SanitationReport).order_by(SanitationReport.id)).all()


def report(harness):
    """Return the newest report; its signature is verified."""
    row = rows(harness)[-1]
    document = {
        "report": orjson.loads(row.report),
        "signature": sanitation_proofs.signature_document(row.signature, row.public_key),
    }
    verified_report = sanitation_proofs.verify(document, base64.b64decode(row.public_key))
    assert row.result == verified_report["result"]
    return verified_report


def clean(harness, node, result=ERASED, verb="clean", **arguments):
    harness.do(node, verb, **(arguments or {"clean_steps": [ERASE]}))
    harness.call(node)
    harness.finish(node, result=result)


def tear_down(harness, node):
    harness.ask(node, "deleted")
    harness.run()


def test_a_tear_down_is_proven_with_serials_tenancy_and_steps(harness):
    instance = str(uuid4())
    node = harness.with_agent(
        "active", instance_uuid=instance, owner="o", lessee="l", power_state="power on"
    )
    tear_down(harness, node)
    assert [] == rows(harness)
    harness.call(node)
    harness.finish(node, result=ERASED)
    assert "available" == harness.state(node)
    proof = report(harness)
    assert ("sanitized", []) == (proof["result"], proof["reasons"])
    assert [("S-1", "erased", None, 10), ("S-2", "erased", None, None)] == [
        (disk["serial"], disk["status"], disk["method"], disk["size"]) for disk in proof["disks"]
    ]
    assert "deploy.erase_devices" == proof["steps"][proof["disks"][0]["step"]]["step"]
    tenancy = proof["tenancy"]
    assert (instance, "o", "l") == tuple(
        tenancy[name] for name in ("instance_uuid", "owner", "lessee")
    )
    assert harness.last(node).uuid == tenancy["ended_by"] == proof["operation"]["uuid"]
    assert all(step["finished_at"] for step in proof["steps"] if step["state"] == "done")
    assert "deleted" == proof["operation"]["kind"]


def test_a_later_clean_is_of_the_same_tenancy(harness):
    node = harness.with_agent("active", instance_uuid=str(uuid4()), power_state="power on")
    tear_down(harness, node)
    harness.call(node)
    harness.agent.fail("the disk is broken")
    harness.call(node)
    harness.run()
    first_report = report(harness)
    assert "not sanitized" == first_report["result"]
    assert "broken" in first_report["operation"]["error"]
    assert "deploy.erase_devices" == first_report["operation"]["failed_in"]
    harness.do(node, "provide")
    harness.call(node)
    harness.finish(node, result=ERASED)
    second_report = report(harness)
    assert ("sanitized", first_report["tenancy"]) == (
        second_report["result"],
        second_report["tenancy"],
    )


def test_a_tear_down_that_fails_is_of_the_present_tenancy(harness, monkeypatch):
    def refuse(*_):
        raise Refused("the BMC refuses")

    monkeypatch.setattr(AcmePower, "order", refuse)
    present, former = str(uuid4()), {"instance_uuid": str(uuid4()), "ended_by": str(uuid4())}
    node = harness.with_agent(
        "active", instance_uuid=present, power_state="power on",
        driver_internal_info={"tenancy": former},
    )  # fmt: skip
    tear_down(harness, node)
    assert "error" == harness.state(node)
    proof = report(harness)
    assert "not sanitized" == proof["result"]
    assert (present, None) == (proof["tenancy"]["instance_uuid"], proof["tenancy"]["ended_by"])


def test_a_tear_down_without_a_cleaning_is_not_sanitized(harness):
    node = harness.with_agent("active", automated_clean=False, power_state="power on")
    inspected(harness, node, DISKS)
    tear_down(harness, node)
    assert "available" == harness.state(node)
    proof = report(harness)
    assert "not sanitized" == proof["result"]
    assert ["not erased"] * 2 == [disk["status"] for disk in proof["disks"]]
    assert "No step of the operation erases disks." in proof["reasons"]


def inspected(harness, node, disks):
    with harness.inside.runtime.transaction() as session:
        session.add(NodeInventory(node_id=node, inventory={"disks": disks}, plugin_data={}))


@pytest.mark.parametrize("disks", [None, {}, "sda", [7], [{"name": "x" * 70_000}] * 400])
def test_an_inventory_without_a_list_of_disks_leaves_the_result_unknown(harness, disks):
    harness.agent.answers["poll.get_hardware_info"] = {"disks": disks}
    node = harness.with_agent()
    clean(harness, node)
    assert "manageable" == harness.state(node)
    assert "unknown" == report(harness)["result"]


def test_an_agent_that_does_not_answer_fails_no_erasure(harness):
    harness.agent.lacks = ("poll",)
    node = harness.with_agent()
    clean(harness, node)
    assert "manageable" == harness.state(node)
    proof = report(harness)
    assert "unknown" == proof["result"]
    assert "poll" in proof["reasons"][0]


def test_an_aborted_clean_is_not_sanitized(harness):
    node = harness.with_agent()
    harness.do(node, "clean", clean_steps=[ERASE])
    harness.call(node)
    with harness.inside.runtime.transaction() as session:
        transitions.request_abort(session, operations.lock(session, node))
    harness.run()
    assert "clean failed" == harness.state(node)
    proof = report(harness)
    assert ("not sanitized", "aborted") == (proof["result"], proof["operation"]["state"])


def test_a_provide_without_cleaning_has_no_report(harness):
    node = harness.with_agent(automated_clean=False)
    assert "available" == harness.do(node, "provide")
    assert [] == rows(harness)


def test_checks_of_firmware_and_tpm_are_listed(harness):
    harness.offer(
        "clean", ("deploy", "erase_devices", 10), ("management", "clear_tpm", 0),
        ("firmware", "verify", 0),
    )  # fmt: skip
    node = harness.with_agent()
    steps = [requested("management", "clear_tpm"), requested("firmware", "verify")]
    harness.do(node, "clean", clean_steps=steps)
    harness.call(node)
    harness.finish(node)
    harness.finish(node)
    checks = report(harness)["checks"]
    assert {"tpm": "management.clear_tpm", "firmware": "firmware.verify"} == {
        subject: step["step"] for subject, (step,) in checks.items()
    }
    assert {"done"} == {step["state"] for (step,) in checks.values()}


def test_a_report_outlives_its_node_until_its_age(harness):
    node = harness.with_agent()
    clean(harness, node)
    with harness.inside.runtime.transaction() as session:
        nodes.remove(session, operations.lock(session, node))
    assert 1 == len(rows(harness))
    runtime = harness.inside.runtime
    assert 0 == pruning.prune_sanitation(runtime)
    with runtime.transaction() as session:
        session.execute(update(SanitationReport).values(created_at=after(-86400 * 1097)))
    assert 1 == pruning.prune_sanitation(runtime)


def test_an_end_that_is_not_committed_leaves_no_report(harness, monkeypatch):
    node = harness.with_agent()
    harness.do(node, "clean", clean_steps=[ERASE])

    def dies(*_):
        raise KeyboardInterrupt

    harness.call(node)
    with monkeypatch.context() as patch:
        patch.setattr("app.engine.operation_end.release", dies)
        with pytest.raises(KeyboardInterrupt):
            harness.finish(node, result=ERASED)
    with harness.inside.runtime.reading() as session:
        assert 0 == session.scalar(select(func.count()).select_from(SanitationReport))
    assert harness.last(node).finished_at is None


def test_without_a_master_key_a_report_is_not_signed(database):
    inside = Inside(database, INGOT_AGENT_REQUIRE_TLS="false")
    harness = Harness(inside)
    node = harness.node()
    scrub = requested("management", "scrub", args={"level": "x"})
    assert "manageable" == harness.do(node, "clean", clean_steps=[scrub])
    (row,) = rows(harness)
    assert (None, None) == (row.signature, row.public_key)
    inside.close()


def test_a_file_is_verified_by_the_key_that_the_command_prints(harness, tmp_path, monkeypatch):
    node = harness.with_agent(name="m1")
    clean(harness, node)
    monkeypatch.setenv("INGOT_DATABASE_CONNECTION", harness.inside.url)
    monkeypatch.setenv("INGOT_DATABASE_SECRETS_KEY", KEY)
    printed = CliRunner().invoke(cli.app, ["sanitation", "key"])
    assert 0 == printed.exit_code, printed.output
    public_key, file = tmp_path / "key.pem", tmp_path / "report.json"
    public_key.write_text(printed.output)
    (row,) = rows(harness)
    document = {
        "report": orjson.loads(row.report),
        "signature": sanitation_proofs.signature_document(row.signature, row.public_key),
    }
    file.write_text(json.dumps(document, indent=1))
    words = ["sanitation", "verify", str(file), "--key", str(public_key)]
    verified = CliRunner().invoke(cli.app, words)
    assert 0 == verified.exit_code, verified.output
    assert "m1" in verified.output
    assert "result: sanitized" in verified.output
    file.with_name("same.json").write_text(file.read_text())
    both = [*words[:2], str(file.with_name("same.json")), *words[2:]]
    verified = CliRunner().invoke(cli.app, both)
    assert 0 == verified.exit_code, verified.output
    assert "2 of 2 reports are genuine: 2 sanitized\n" in verified.stdout
    document["report"]["result"] = "unknown"
    file.write_text(json.dumps(document))
    refused = CliRunner().invoke(cli.app, words)
    assert 1 == refused.exit_code
    assert "was changed" in str(refused.exception)
    refused = CliRunner().invoke(cli.app, both)
    assert 1 == refused.exit_code
    assert "1 of 2 reports are genuine: 1 sanitized\n" in refused.stdout
    assert f"{file}: not genuine: the report or its signature was changed\n" == refused.stderr
    refused = CliRunner().invoke(cli.app, [*both[:-1], "no-key"])
    assert "--key: the key is none of Ed25519" in str(refused.exception)
