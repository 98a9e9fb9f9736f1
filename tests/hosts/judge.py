"""
The judge of a phase: it sees only what the API, the machines and the receivers show.

Reuses the goals of requests of `tests.chaos.judge`; the rows there come from the API here.
"""

import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime

from tests.chaos import orders
from tests.chaos.judge import (
    ENDED,
    FAILED,
    Verdict,
    goals,
    judge_operations,
    late_goals,
    was_under_way,
)

#: Seconds of the promise: after each fault of one host all its work goes on within them.
PROMISE = 20.0
#: Longest seconds between two events of an undisturbed operation: a machine boots, an agent works.
PACE = 10.0
#: Operations of a page of a list.
PAGE = 200
#: Most seconds until all rests.
REST = 180
#: Failures that a fault of a path to a BMC or an agent explains.
OF_PATHS = {"unreachable", "agent_unreachable", "timeout", "agent_timeout", "callback_timeout"}
NODE_FIELDS = "uuid,provision_state,maintenance,fault,reservation,last_error"
#: States of an operation between which it changes without an event, once it has begun.
BETWEEN_STEPS = {"queued", "running"}
#: Row of the verdict -> what must be 0.
ROWS = {
    "stuck": "operations or nodes stuck",
    "lost": "accepted requests without their operation, or the reverse",
    "astray": "nodes neither in the requested state nor in an explained failure",
    "unexplained": "failures without a fault",
    "second": "orders given twice",
    "interleaved": "orders of two operations interleaved at a machine",
    "stale": "reads at one host that missed a write at the other",
    "events": "events missed, repeated, or out of order",
    "late": "operations that stood still for longer than the promise",
    "idle": "phases in which no request was accepted, so that nothing was judged",
}


def newest(site, earlier_uuids=None):
    """
    The newest operations of all nodes, the newest first.

    earlier_uuids: those of the operations before them; None: a page of operations.
    """
    operations, query = [], {"limit": PAGE}
    while True:
        page = site.get("operations", **query)["operations"]
        new = [operation for operation in page if operation["uuid"] not in (earlier_uuids or ())]
        operations += new
        if earlier_uuids is None or len(new) < PAGE:
            return operations
        query["marker"] = page[-1]["uuid"]


def nodes(site):
    """Nodes by UUID."""
    return {
        node["uuid"]: node for node in site.get("nodes", fields=NODE_FIELDS, limit=1000)["nodes"]
    }


def active(site):
    """Operations that are under way; those that are held wait for a client."""
    operations = site.get("operations", active=True, limit=1000)["operations"]
    return [operation for operation in operations if operation["state"] not in (*ENDED, "held")]


def await_rest(site, seconds, ignored=()):
    """
    Wait until nothing is under way; return the seconds, and the operations that still are.

    ignored: UUIDs of operations that an earlier phase was blamed for.
    """
    began = time.monotonic()
    while True:
        busy = [operation for operation in active(site) if operation["uuid"] not in ignored]
        took = time.monotonic() - began
        if not busy or took > seconds:
            return took, busy
        time.sleep(0.5)


@dataclass(frozen=True, slots=True)
class Excuses:
    """Deviations that a fault explains."""

    fault: float  # time of its begin, in seconds since 1970
    allowed: float = PROMISE  # seconds for which an operation may stand still
    codes: frozenset = frozenset()  # of failures
    stops: tuple = ()  # (role, begin, end) of stopped processes, in seconds since 1970
    nodes: frozenset = frozenset()  # nodes whose last changes the database has lost


class Judge:
    """The judge of one phase, created before it begins."""

    def __init__(self, site):
        self.site, self.began = site, time.time()
        self.position = site.get("events", limit=1)["last"]
        operations = active(site)  # of an earlier phase, which was blamed for it
        self.stuck = {operation["uuid"] for operation in operations}
        self._stuck_nodes = {operation["node_uuid"] for operation in operations}
        self._earlier_operations = {operation["uuid"] for operation in newest(site)}
        self._states = {uuid: node["provision_state"] for uuid, node in nodes(site).items()}

    def judge(self, ledger, stale, excuses, stuck):
        """
        Return the verdict about a site at rest.

        stale: sentences about reads that did not see a write. stuck: operations that do not rest.
        """
        verdict = Verdict()
        if not ledger.counts["accepted"]:
            verdict.blame("idle", "no request was accepted")
        for entry in stuck:
            verdict.blame(
                "stuck", f"{entry['kind']} {entry['uuid']} is {entry['state']}: {_facts(entry)}"
            )
        operations = self._done()
        for uuid, node in nodes(self.site).items():
            if uuid not in excuses.nodes | self._stuck_nodes:
                self._judge_node(verdict, ledger, node, operations[uuid], excuses.codes)
                judge_operations(verdict, ledger, node, operations[uuid])
                _judge_failures(verdict, operations[uuid], excuses.codes)
        for node, verb in ledger.unknown:
            if node not in excuses.nodes:
                verdict.blame("lost", f"node {node}: the request to {verb} was never answered")
        for sentence in stale:
            verdict.blame("stale", sentence)
        self._judge_machines(verdict, excuses.stops)
        verdict.counts["standing"] = self._judge_times(verdict, excuses.fault, excuses.allowed)
        return verdict

    def _done(self):
        """The operations since the begin of the phase: UUID of the node -> the oldest first."""
        operations = {machine["uuid"]: [] for machine in self.site.machines}
        for operation in reversed(newest(self.site, self._earlier_operations)):
            names = {
                "node": operation["node_uuid"], "request": operation["request_id"],
                "created": operation["created_at"],
            }  # fmt: skip
            operations[operation["node_uuid"]].append(operation | names)
        return operations

    def _judge_node(self, verdict, ledger, node, operations, codes):
        uuid, state = node["uuid"], node["provision_state"]
        if node["reservation"] is not None:
            verdict.blame("stuck", f"node {uuid} is reserved for {node['reservation']}")
        goal_states = goals(ledger.accepted[uuid]) or {self._states[uuid]}
        goal_states = goal_states | late_goals(ledger, uuid, operations)
        operation = next(
            (entry for entry in reversed(operations) if entry["kind"] != "power"), None
        )
        is_explained = operation is not None and state in FAILED and _code(operation) in codes
        if state not in goal_states and not is_explained:
            verbs = [entry.verb for entry in ledger.accepted[uuid]][-3:]
            facts = _facts(operation) if operation else "no operation"
            verdict.blame(
                "astray", f"node {uuid} is {state!r}, wanted {goal_states} after {verbs}: {facts}"
            )

    def _judge_machines(self, verdict, stops):
        site, late = self.site, None
        for machine in site.machines:
            log = site.machine_log(machine["number"])
            for second in orders.second_starts(machine["number"], log):
                if second.at < self.began:
                    continue
                late = site.log("step.refused", "claim.given_up") if late is None else late
                if not was_under_way(second, machine["uuid"], stops, late):
                    verdict.blame("second", f"machine {machine['number']}: {second}")
            new = [entry for entry in log if entry["at"] >= self.began]
            for sentence in interleaved(new):
                verdict.blame("interleaved", f"machine {machine['number']}: {sentence}")

    def _judge_times(self, verdict, fault, allowed):
        """
        Return the longest time from the fault, or an event of an operation, to its next event.

        The result is (seconds, sentence). Blame those that are longer than `allowed`, and the pace
        of an undisturbed operation.
        """
        last_events, worst = {}, (0.0, "")
        for event in self.events():
            operation = event["operation_uuid"]
            if operation is None:
                continue
            at = datetime.fromisoformat(event["created_at"]).timestamp()
            if operation in last_events and event["before"] != "held":
                took = at - max(last_events[operation][0], fault)
                sentence = (
                    f"{event['operation_kind']} {operation}: {took:.0f} s between"
                    f" {_shown(last_events[operation][1])} and {_shown(event)}"
                )
                worst = max(worst, (took, sentence))
                if took > allowed + PACE:
                    verdict.blame("late", sentence)
            last_events[operation] = (at, event)
        return worst

    def events(self):
        """All events since the begin of the phase."""
        events, position = [], self.position
        while True:
            page = self.site.get("events", after=position, limit=1000)
            events += page["events"]
            if page["last"] == position:
                return events
            position = page["last"]

    def judge_readers(self, verdict, streams, receiver, seconds=30.0):
        """Compare what the streams of all hosts and the receiver have got with the list."""
        expected = [event["sequence"] for event in self.events()]
        end = time.monotonic() + seconds
        while time.monotonic() < end and expected:
            have = [max((e["sequence"] for _, e in stream.events), default=0) for stream in streams]
            if min([*have, max(receiver.numbers, default=0)]) >= expected[-1]:
                break
            time.sleep(0.5)
        for sentence in number_gaps(expected, self.position):
            verdict.blame("events", sentence)
        for sentence in missing_events(self.events(), self._whole_operations()):
            verdict.blame("events", sentence)
        for number, stream in enumerate(streams):
            got = [event["sequence"] for _, event in stream.events]
            got = [sequence for sequence in got if sequence <= (expected or [0])[-1]]
            if got != expected[-len(got) :] or len(got) != len(expected):
                verdict.blame("events", f"stream {number}: {len(got)} of {len(expected)} events")
        posted = {sequence for sequence in receiver.numbers if sequence > self.position}
        missed = [sequence for sequence in expected if sequence not in posted]
        if missed:
            verdict.blame("events", f"the receiver has missed {len(missed)}, {missed[:3]} first")

    def _whole_operations(self):
        """Operations that have begun and ended since the begin of the phase, with their steps."""
        return [
            self.site.get(f"operations/{operation['uuid']}")
            for operation in newest(self.site, self._earlier_operations)
            if operation["state"] in ENDED
        ]


def number_gaps(numbers, position):
    """Sentences: numbers that are missing in the list of events. position: the number before."""
    gaps = []
    for number in numbers:
        if number != position + 1:
            gaps.append(f"the list has event {number} after event {position}")
        position = number
    return gaps


def missing_events(events, ended):
    """
    Sentences: changes of operations and steps that have no event.

    Each state of an operation follows the one before it, the last is that of its document, and
    each step that is done has an event that says so. ended: documents of operations, with steps.
    """
    states, done_steps = defaultdict(list), Counter()
    for event in events:
        if event["type"] == "operation.state":
            states[event["operation_uuid"]].append((event["before"], event["after"]))
        elif event["type"] == "step.state" and event["after"] == "done":
            done_steps[event["operation_uuid"], event["step"]] += 1
    gaps = []
    for operation in ended:
        uuid, state, began = operation["uuid"], None, False
        for old_state, new_state in states[uuid]:
            is_silent = began and {old_state, state} == BETWEEN_STEPS
            if old_state != state and not is_silent:
                gaps.append(
                    f"{operation['kind']} {uuid} changes from {state} to {old_state} without event"
                )
            state, began = new_state, began or new_state == "running"
        if state != operation["state"]:
            gaps.append(
                f"{operation['kind']} {uuid} is {operation['state']}, its last event says {state}"
            )
        labels = Counter(
            f"{step['interface']}.{step['step']}"
            for step in operation["steps"]
            if step["state"] == "done"
        )
        gaps += [
            f"{operation['kind']} {uuid}: {label} is done {count} times, with"
            f" {done_steps[uuid, label]} events"
            for label, count in labels.items()
            if done_steps[uuid, label] != count
        ]
    return gaps


def _judge_failures(verdict, operations, codes):
    for operation in operations:
        if operation["state"] == "failed" and _code(operation) not in codes:
            verdict.blame(
                "unexplained", f"{operation['kind']} {operation['uuid']}: {operation['error']}"
            )


def _code(operation):
    """Code of an operation's failure; None: it has not failed."""
    return operation["error"]["code"] if operation["state"] == "failed" else None


def _facts(operation):
    """Fields of an operation that show its fate, as a text."""
    names = (
        "uuid", "kind", "state", "node_uuid", "cursor", "fence", "claimed_by", "sends", "sent_at",
        "wake_at", "deadline_at", "error",
    )  # fmt: skip
    return ", ".join(f"{name} {operation[name]}" for name in names)


def _shown(event):
    return f"{event['type']} {event['step'] or ''} {event['before']} -> {event['after']}"


def interleaved(log):
    """Sentences: orders of an operation that came after those of the operation that followed it."""
    operations, sentences = [], []
    for entry in log:
        mark = str((entry.get("step") or {}).get("ingot_step") or "")
        operation = mark.partition(":")[0]
        if entry["kind"] != "agent" or not operation or entry["what"].startswith("finished "):
            continue
        if operation in operations[:-1]:
            sentences.append(f"{entry['what']} of {operation} after orders of {operations[-1]}")
        if operation not in operations:
            operations.append(operation)
    return sentences
