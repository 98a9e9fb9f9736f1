"""The rig of hosts: a short run of it, and what its parts promise."""

import os
import select
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tests.chaos.clients import Entry, Held, Ledger
from tests.hosts import balancer, database, isolation, judge, phases, probes, table
from tests.hosts.judge import interleaved, missing_events, number_gaps
from tests.hosts.rigs import NotReady, Rigs
from tests.hosts.run import Row, lost_with_the_database
from tests.support.fleet import ROOT, until
from tests.support.postgresql import NoServer
from tests.support.prerequisites import not_allowed, not_run
from tests.support.processes import children

RIG = [sys.executable, "-m", "tests.hosts", "--nodes", "6", "--clients", "2", "--seed", "11"]


@pytest.fixture
def allowed():
    """Skip the test where no namespaces are allowed."""
    if reason := isolation.why_not():
        not_allowed(f"no private networks: {reason}")
    try:
        if missing := database.tools():
            not_run(missing)
    except NoServer as error:
        not_run(str(error))


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder in which a run creates that of its logs."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.timeout(500)
def test_the_work_of_a_conductor_that_cannot_reach_the_database_goes_on(allowed, temporary):
    """`make hosts`, one phase of it."""
    words = ["--phase", "cut-conductor-database", "--no-times"]
    run = subprocess.run([*RIG, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert 0 == run.returncode, run.stdout + run.stderr
    assert "conductor and database lose all packets" in run.stdout
    assert [] == list(temporary.glob(f"{isolation.PREFIX}*")), "the logs of a good run are removed"


def isolated(rig):
    """The isolated process of a rig, once it has processes of the site; else None."""
    inner = (child for unshare in children(rig) for child in children(unshare))
    return next((child for child in inner if children(child)), None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_is_ended(allowed, temporary, number):
    with subprocess.Popen(RIG, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        inside = until(lambda: isolated(run.pid), "a process of the site")
        end = os.pidfd_open(inside)
        within = [(pid, os.pidfd_open(pid)) for pid in children(inside)]
        run.send_signal(number)
        run.wait(30)
        for descriptor in (end, *(descriptor for _, descriptor in within)):
            assert select.select([descriptor], [], [], 30)[0], "a process goes on"
            os.close(descriptor)
    folders = list(temporary.glob(f"{isolation.PREFIX}*"))
    assert len(folders) == (number == signal.SIGKILL)
    isolation.remove_left()  # as the next run does
    assert [] == list(temporary.glob(f"{isolation.PREFIX}*"))


def test_folders_in_use_and_kept_ones_are_not_removed(temporary):
    with isolation.folder() as used, isolation.folder() as kept_folder:
        isolation.keep(kept_folder)
        isolation.remove_left()
        assert used.is_dir()
    isolation.remove_left()
    assert [kept_folder] == list(temporary.glob(f"{isolation.PREFIX}*"))


#: A rig without a site: it repeats the names of phases, fails "wrong", and dies in "deadly".
PUPPET = """
import json, sys
if sys.argv[1:] == ["unready"]:
    sys.exit()
print(json.dumps({"ready": True}), flush=True)
for name in map(str.strip, sys.stdin):
    if name == "deadly":
        sys.exit(1)
    is_right = name != "wrong"
    result = {"phase": name, "ok": is_right, "line": f"| {name} |", "complaints": []}
    print(json.dumps(result), flush=True)
"""


class Puppets:
    """Rigs of `PUPPET`, and what they have run. lines: of the run."""

    def __init__(self, limit, *words):
        self.lines, self.alive, self.words = [], [], words
        self.rigs = Rigs(limit, self._start, self.lines.append)

    @contextmanager
    def _start(self, number):
        command = [sys.executable, "-c", PUPPET, *self.words]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as program:
            self.alive.append(number)
            try:
                yield program
            finally:
                program.kill()
                self.alive.remove(number)

    def of(self, phase):
        """Number of the rig that has run a phase."""
        (line,) = (line for line in self.lines if line.endswith(f": {phase}"))
        return int(line.removeprefix("rig ").partition(":")[0])


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_each_phase_runs_once_and_no_rig_is_left(limit):
    puppets, names = Puppets(limit), ["a", "b", "c", "d", "e"]
    results = puppets.rigs.run(names)
    assert names == [result["phase"] for result in results]
    assert sorted(names) == sorted(
        line.rpartition(": ")[2] for line in puppets.lines if ":" in line
    )
    assert {puppets.of(name) for name in names} <= set(range(1, min(limit, len(names)) + 1))
    assert [] == puppets.alive


@pytest.mark.parametrize("fault", ["wrong", "deadly"])
def test_after_a_wrong_phase_and_after_its_own_end_a_rig_is_replaced(fault):
    puppets = Puppets(1)
    results = puppets.rigs.run(["a", fault, "b"])
    assert [True, False, True] == [result["ok"] for result in results]
    assert [1, 1, 2] == [puppets.of(name) for name in ("a", fault, "b")]
    assert [] == puppets.alive
    has_row = bool(results[1]["line"])
    assert has_row == (fault == "wrong")
    assert has_row or "rig 1 has ended in deadly" in "\n".join(puppets.lines)


def test_a_run_whose_rigs_do_not_begin_ends():
    puppets = Puppets(2, "unready")
    with pytest.raises(NotReady, match="has ended before its site was up"):
        puppets.rigs.run(["a", "b"])
    assert [] == puppets.alive


def agent(order, operation):
    return {"kind": "agent", "what": order, "step": {"ingot_step": f"{operation}:3"}}


def test_orders_of_two_operations_may_follow_each_other_but_not_mix():
    image, raid = agent("deploy.write_image", "a"), agent("raid.create_configuration", "b")
    power = {"kind": "redfish", "what": "power on"}
    assert [] == interleaved([image, power, image, raid, raid])
    (sentence,) = interleaved([image, raid, image])
    assert "deploy.write_image of a after orders of b" in sentence
    ended = agent("finished deploy.write_image", "a")
    assert [] == interleaved([image, raid, ended])


@pytest.mark.parametrize(
    ("numbers", "gaps"),
    [([], 0), ([8, 9, 10], 0), ([9, 10], 1), ([8, 10], 1), ([8, 8, 9], 1), ([8, 9, 7], 1)],
)
def test_the_judge_sees_gaps_of_numbers_also_before_the_first(numbers, gaps):
    assert gaps == len(number_gaps(numbers, 7))


def change(kind, old_state, new_state, step=None):
    return {
        "type": f"{kind}.state", "operation_uuid": "u", "step": step, "before": old_state,
        "after": new_state,
    }  # fmt: skip


WHOLE = (
    change("operation", None, "queued"), change("operation", "queued", "running"),
    change("step", "running", "done", "deploy.write"),
    change("step", "running", "waiting", "deploy.boot"), change("operation", "running", "waiting"),
    change("operation", "waiting", "queued"), change("step", "running", "done", "deploy.boot"),
    change("step", "running", "done", "deploy.boot"), change("operation", "running", "succeeded"),
)  # fmt: skip
ENDED = {
    "uuid": "u", "kind": "clean", "state": "succeeded",
    "steps": [
        {"interface": "deploy", "step": "write", "state": "done"},
        {"interface": "deploy", "step": "boot", "state": "done"},
        {"interface": "deploy", "step": "boot", "state": "done"},
        {"interface": "deploy", "step": "tidy", "state": "skipped"},
    ],
}  # fmt: skip


def test_the_judge_misses_no_event_of_a_whole_operation():
    assert [] == missing_events(WHOLE, [ENDED])


@pytest.mark.parametrize("missing", [0, 1, 2, 4, 5, 6, 7, 8])  # 3: no other event tells of it
def test_the_judge_sees_each_missing_event(missing):
    events = [event for at, event in enumerate(WHOLE) if at != missing]
    assert missing_events(events, [ENDED])


def test_gaps_are_between_answers_of_any_host_or_of_one():
    probe = probes.Probes(None)
    probe.began, probe.ended = 0.0, 10.0
    probe.times = {("api-1", "read"): [1.0, 2.0, 9.0], ("api-2", "read"): [4.0, 12.0]}
    assert 5.0 == probe.gap("read", "api-1", "api-2")
    assert 7.0 == probe.gap("read", "api-1")
    assert 6.0 == probe.gap("read", "api-2"), "an answer after the phase does not end its gap"


def test_connections_to_a_silent_backend_are_cut_only_while_another_one_answers():
    cut = []

    class End:
        def __init__(self, name):
            self.transport, self._name = self, name

        def abort(self):
            cut.append(self._name)

    proxy = balancer.Balancer(["a", "b"], 1)
    proxy._open = {"a": {End("a")}, "b": {End("b")}}
    proxy.note("a", is_well=False)
    assert ["a"] == cut
    proxy.note("b", is_well=False)
    assert ["a"] == cut, "both are slow"
    proxy.note("a", is_well=True)
    proxy.note("b", is_well=False)
    assert ["a", "b"] == cut


def test_a_node_whose_hold_the_database_has_lost_is_excused():
    ledger = Ledger()
    ledger.holds += [Held("a", "u1", refused=False), Held("b", "u2", refused=True), Held("c", "u3")]
    ledger.accepted["d"].append(Entry("power", "active", {}, 8.0, 9.0, 1))
    ledger.accepted["e"].append(Entry("power", "active", {}, 21.0, 22.0, 1))
    assert {"a", "d"} == lost_with_the_database(ledger, 5.0, 20.0)


@pytest.mark.parametrize(
    ("begun", "late", "is_well"),
    [
        (["power", "deleted"], [("n", "power")], True),
        (["power", "deleted"], [], False),
        (["power", "deleted"], [("other", "power")], False),
        (["power", "power", "deleted"], [("n", "power")], False),
        (["deleted"], [("n", "power")], True),
        (["power"], [("n", "power")], False),
    ],
)
def test_an_attempt_without_an_answer_may_be_executed_after_a_refusal(begun, late, is_well):
    ledger, verdict = Ledger(), judge.Verdict()
    ledger.accepted["n"].append(Entry("deleted", "active", {}, 8.0, 9.0, 1))
    for node, verb in late:
        ledger.refuse(node, verb, SimpleNamespace(tries=2))
    ledger.refuse("n", "rescue", SimpleNamespace(tries=1))
    operations = [{"kind": kind, "request": "req-1"} for kind in begun]
    judge.judge_operations(verdict, ledger, {"uuid": "n"}, operations)
    assert is_well == (not verdict.wrong)


def test_a_row_counts_what_is_wrong_and_names_it():
    verdict = judge.Verdict({"standing": (1.5, "")})
    verdict.blame("lost", "an operation")
    verdict.blame("second", "an order")
    verdict.blame("late", "another operation")
    row = Row(phases.PHASES["none"], 20, 9, verdict, 3, (0.5, 0.6, 0.7), (0.5, 0.6, 0.7), {})
    assert not row.ok
    assert "| none | 20 | 9 | 0.5; 0.6; 0.7 | 0.5; 0.6; 0.7 | 1.5 | 3 | 1 | 1 | 1 |" == table.line(
        row
    )
    assert 3 == len(table.complaints(row))
    verdict.counts["standing"] = (21.0, "a power change")
    assert "slowest: a power change" == table.complaints(row)[0]


class SiteWithoutNodes:
    machines = ()

    def get(self, path, **_query):
        return {path: [], "last": 0}


@pytest.mark.parametrize("accepted", [0, 1])
def test_a_phase_without_an_accepted_request_is_wrong(accepted):
    ledger = Ledger()
    ledger.counts["accepted"] = accepted
    judging = judge.Judge(SiteWithoutNodes())
    verdict = judging.judge(ledger, (), judge.Excuses(0.0), ())
    assert verdict.ok == bool(accepted)
    assert {"idle": ["no request was accepted"]} == dict(verdict.wrong) or accepted


def test_each_kind_of_wrong_is_in_a_column_of_the_table():
    counted = Counter(name for names in table.COUNTED.values() for name in names)
    assert dict.fromkeys(judge.ROWS, 1) == counted
