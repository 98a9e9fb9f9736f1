"""A short storm: processes are killed, stopped, cut off and emptied; nothing is lost."""

from types import SimpleNamespace

import psycopg
import pytest

from app.db import clock, connections, transactions
from app.models import Node, Operation, OperationStep
from tests.chaos import audit, judge, orders, readers, run
from tests.chaos.judge import ROWS, Verdict
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
            site, minutes=0.35, gap=0.6, clients=3, rest_limit=120, say=print
        )
    assert {} == {row: wrong for row, wrong in verdict.wrong.items() if wrong}
    assert 5 < storm.counts.total()
    assert 5 < ledger.counts["accepted"]
    assert ledger.holds


@pytest.mark.parametrize(
    ("operation", "refused", "excused"),
    [
        ("", {"node": "n"}, True),  # of a firmware update only the node is known
        ("o", {"node": "n", "operation": "o"}, True),
        ("o", {"node": "n", "operation": "another"}, False),
        ("", {"node": "another"}, False),
        ("", {"node": "n", "role": "c-1"}, False),
        ("", {"node": "n", "timestamp": "1970-01-01T00:00:19Z"}, False),
    ],
)
def test_a_second_order_is_excused_if_its_process_was_stopped_and_refused(
    operation, refused, excused
):
    second = orders.Second(80, "update firmware", 1.0, 20.1, running=False, operation=operation)
    line = {"role": "c-2", "timestamp": "1970-01-01T00:00:21Z", **refused}
    assert excused is judge.was_under_way(second, "n", [("c-2", 5.0, 20.0)], [line])
    assert not judge.was_under_way(second, "n", [("c-2", 5.0, 30.0)], [line])


DOUBT = "the update of bios was ordered, not confirmed: its answer was not recorded"


@pytest.mark.parametrize(("code", "message", "died", "excused"), [
    ("unconfirmed", DOUBT, True, True),
    ("unconfirmed", DOUBT, False, False),  # nothing happened to its conductor
    ("unconfirmed", "the update of bios was ordered, not confirmed: the BMC did not answer", True, False),
    ("timeout", DOUBT, True, False),
])  # fmt: skip
def test_an_update_in_doubt_is_excused_if_its_conductor_died(code, message, died, excused):
    error = {"code": code, "message": message}
    operation = {"uuid": "o", "kind": "clean", "state": "failed", "error": error, "created": ""}
    doubtful = judge.doubtful_updates({"n": [operation]}, {"o"} if died else set())
    assert ({"o"} if excused else set()) == doubtful
    verdict = Verdict()
    judge.judge_failures(verdict, {"n": [operation]}, set(), doubtful)
    assert excused is (not verdict.wrong["unexplained"])


class Database:
    """A database with a site's interface; `role` names the process that queries."""

    def __init__(self, url):
        self.url = url

    def query(self, text, *values, role="judge.1"):
        with psycopg.connect(self.url, autocommit=True, application_name=role) as session:
            cursor = session.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []


WAIT = "UPDATE operations SET state = 'waiting'"


@pytest.mark.parametrize(("role", "change", "foreign"), [
    ("c-1.1", WAIT, 0),  # the claimant
    ("c-1.2", WAIT, 1),  # the next life of the same conductor
    ("c-2.1", WAIT, 1),
    ("c-2.1", f"UPDATE operation_steps SET deaths = 1; {WAIT}", 0),  # a takeover
    ("api-1.1", f"{WAIT}, aborting = true, fence = fence + 1", 0),
    ("api-1.1", f"{WAIT}, aborting = true", 1),  # an abort that its claimant would not notice
    ("api-1.1", f"{WAIT}, fence = fence + 1", 1),
])  # fmt: skip
def test_the_audit_finds_records_by_processes_that_do_not_hold_the_step(
    postgresql_server, migrated_postgresql, role, change, foreign
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
    database.query("UPDATE operations SET state = 'running', claim = 't'", role="c-1.1")
    database.query(f"BEGIN; {change}; COMMIT", role=role)
    assert foreign == len(audit.written_by_others(database))
    postgresql_server.drop(database.url)


def change(sequence, node="a"):
    return {
        "sequence": sequence, "node_uuid": node, "resource_uuid": None, "type": "node.updated",
        "operation_uuid": None, "before": None, "after": None,
    }  # fmt: skip


class Rows:
    """A site with the rows of three events, as (id, number, node); one webhook begins after 1."""

    def query(self, _text):
        rows = [(7, change(1)), (8, change(2, "b")), (9, change(3))]
        return [(ident, *event.values()) for ident, event in rows]


@pytest.mark.parametrize(("numbers", "wrong"), [
    ([1, 2, 3], set()),
    ([2, 1, 3], set()),  # of different nodes
    ([1, 2], {"stream missed", "webhook missed"}),
    ([1, 2, 3, 2], {"stream twice"}),
    ([2, 3, 1], {"stream order", "webhook order"}),
    ([2, 3], {"stream missed"}),  # the webhook begins later
])  # fmt: skip
def test_the_judge_finds_events_that_are_missing_repeated_or_out_of_order(numbers, wrong):
    events = [change(number, "b" if number == 2 else "a") for number in numbers]
    first_arrivals = list({event["sequence"]: event for event in events}.values())
    stream = SimpleNamespace(events=[(event["type"], event) for event in events], visits=1)
    receiver = SimpleNamespace(events=first_arrivals, documents=[{"events": events}])
    judged = readers.Readers.__new__(readers.Readers)
    judged._site, judged._receiver, judged.streams = Rows(), receiver, [stream]
    judged.start, judged.absences = 1, 0
    verdict = Verdict()
    judged.judge(verdict)
    assert wrong == set(verdict.wrong)
    again = verdict.counts["events that the webhook's receiver got again"]
    assert len(events) - len(first_arrivals) == again
    assert wrong <= set(ROWS)


def entry(kind, summary, detail=None, *, at=0, mark=None):
    step = {"ingot_step": mark} if mark else {}
    return {"kind": kind, "what": summary, "detail": detail, "at": at, "step": step}


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
