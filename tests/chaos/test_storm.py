"""A short storm: processes are killed, stopped, cut off and emptied; nothing is lost."""

import psycopg
import pytest

from app.db import clock, connections, transactions
from app.models import Node, Operation, OperationStep
from tests.chaos import audit, orders, run
from tests.chaos.site import Site
from tests.support.postgresql import NoServer, find
from tests.support.prerequisites import not_run

SEED = 7
#: Machines that stay silent, or do not switch, are given up soon, so that all comes to rest.
SOON = {
    "INGOT_CONDUCTOR_POWER_STATE_CHANGE_TIMEOUT": "15",
    "INGOT_CONDUCTOR_DEPLOY_CALLBACK_TIMEOUT": "30",
    "INGOT_CONDUCTOR_CLEAN_CALLBACK_TIMEOUT": "30",
    "INGOT_CONDUCTOR_SERVICE_CALLBACK_TIMEOUT": "30",
    "INGOT_CONDUCTOR_RESCUE_CALLBACK_TIMEOUT": "30",
    "INGOT_CONDUCTOR_INSPECT_WAIT_TIMEOUT": "40",
    "INGOT_CONDUCTOR_STEP_TIMEOUT": "20",
}


@pytest.mark.timeout(240)
def test_nothing_is_lost_in_a_short_storm(tmp_path):
    """`make chaos`, for a third of a minute."""
    try:
        find()
    except NoServer as error:
        not_run(str(error))
    with Site(tmp_path, nodes=10, seed=SEED, conductors=2, apis=1, **SOON) as site:
        storm, ledger, verdict, _ = run.storm(
            site, minutes=0.35, gap=0.6, clients=3, rest=120, say=print
        )
    assert {} == {row: wrong for row, wrong in verdict.wrong.items() if wrong}
    assert 5 < storm.counts.total()
    assert 10 < ledger.counts["accepted"]


class Database:
    """A database with a site's interface; `who` names the process that queries."""

    def __init__(self, url):
        self.url = url

    def query(self, text, *values, who="judge.1"):
        with psycopg.connect(self.url, autocommit=True, application_name=who) as session:
            found = session.execute(text, values or None)
            return found.fetchall() if found.description else []


@pytest.mark.parametrize(("who", "more", "foreign"), [
    ("c-1.1", "", 0),  # the claimant
    ("c-1.2", "", 1),  # the next life of the same conductor
    ("c-2.1", "", 1),
    ("c-2.1", "UPDATE operation_steps SET deaths = 1;", 0),  # a takeover
])  # fmt: skip
def test_the_audit_finds_records_by_processes_that_do_not_hold_the_step(
    postgresql_server, migrated_postgresql, who, more, foreign
):
    database = Database(postgresql_server.database(migrated_postgresql))
    engine = connections.connect(database.url)
    with transactions.transaction(engine) as session:
        node = Node(uuid="n", driver="fake-hardware", provision_state="cleaning")
        session.add(node)
        session.flush()
        operation = Operation(uuid="o", node_id=node.id, kind="clean", created_at=clock.utcnow())
        session.add(operation)
        session.flush()
        step = {"interface": "power", "name": "power_off", "source": "frame", "position": 0}
        session.add(OperationStep(operation_id=operation.id, **step))
    engine.dispose()
    audit.lay(database)
    database.query("UPDATE operations SET state = 'running', claim = 't'", who="c-1.1")
    database.query(f"BEGIN; {more} UPDATE operations SET state = 'waiting'; COMMIT", who=who)
    assert foreign == len(audit.written_by_others(database))
    postgresql_server.drop(database.url)


def entry(kind, what, detail=None, *, at=0, mark=None):
    step = {"ingot_step": mark} if mark else {}
    return {"kind": kind, "what": what, "detail": detail, "at": at, "step": step}


WRITE = "execute_deploy_step deploy.write_image"
FLASH = ("redfish", "update firmware", {"image": "http://bmc/1.bin"})


@pytest.mark.parametrize(
    ("log", "seconds"),
    [
        ([entry("agent", WRITE, mark="op:6"), entry("agent", WRITE, mark="op:6")], 1),
        (
            [
                entry("agent", WRITE, mark="op:6"),
                entry("agent", f"finished {WRITE}", "SUCCEEDED", mark="op:6"),
                entry("machine", "boots the agent from Cd"),
                entry("agent", WRITE, mark="op:6"),
            ],
            1,
        ),
        (
            [
                entry("agent", WRITE, mark="op:6"),
                entry("machine", "is off"),
                entry("agent", WRITE, mark="op:6"),
            ],
            0,
        ),
        ([entry("agent", WRITE, mark="op:6"), entry("agent", WRITE, mark="other:6")], 0),
        ([entry("agent", "install_bootloader"), entry("agent", "install_bootloader")], 1),
        (
            [
                entry("agent", "power_off"),
                entry("agent", "finished power_off", "SUCCEEDED"),
                entry("machine", "is off"),
                entry("agent", "power_off"),
            ],
            0,
        ),
        ([entry("agent", "sync"), entry("agent", "sync")], 0),
        ([entry(*FLASH), entry(*FLASH)], 1),
    ],
    ids=[
        "while it runs", "after it was done, and a restart", "after it was cut short", "of another",
        "without a mark", "of another start", "a question", "firmware",
    ],
)  # fmt: skip
def test_second_starts_are_found_in_the_log_of_a_machine(log, seconds):
    assert seconds == len(orders.second_starts(1, log))
