"""
The judge: the fate of every request, by the rows, the logs of the machines, and the leftovers.

`await_rest` waits until the site comes to rest by itself; `judge` then finds violations, as
sentences by row of the table. Nothing here helps the service.
"""

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from tests.chaos import audit, orders

#: verb -> its target states
GOALS = {
    "manage": {"manageable"},
    "inspect": {"manageable"},
    "provide": {"available"},
    "clean": {"manageable"},
    "active": {"active"},
    "rebuild": {"active"},
    "deleted": {"available"},
    "rescue": {"rescue"},
    "unrescue": {"active"},
    "service": {"active"},
    "adopt": {"active"},
}
#: state in which an operation is aborted -> state after it
ABORTED = {
    "inspect wait": "inspect failed",
    "clean wait": "clean failed",
    "clean hold": "clean failed",
    "wait call-back": "deploy failed",
    "deploy hold": "deploy failed",
    "rescue wait": "rescue failed",
    "service wait": "active",
    "service hold": "active",
}
FAILED = {
    "enroll", "inspect failed", "clean failed", "deploy failed", "error", "adopt failed",
    "rescue failed", "unrescue failed", "service failed",
}  # fmt: skip
#: Errors that no fault of hardware explains.
OURS = {"defect", "conductor_died", "invalid_steps", "bad_argument"}
#: End of the error of an order whose conductor died before it recorded the answer.
NOT_RECORDED = "was ordered, not confirmed: its answer was not recorded"
ENDED = ("succeeded", "failed", "aborted")
#: Folder of agents' logs that could not be delivered: they stay there on purpose.
KEPT = "agent_logs"
#: A repeated order within so many seconds after its process was continued was pending before.
UNDER_WAY = 1.0


@dataclass(slots=True)
class Verdict:
    """Result of a run."""

    counts: dict = field(default_factory=dict)  # figures of the table
    wrong: dict = field(default_factory=lambda: defaultdict(list))  # row of the table -> sentences

    def blame(self, row, sentence):
        self.wrong[row].append(sentence)

    @property
    def ok(self):
        return not any(self.wrong.values())


#: The rows of the table that must be 0.
ROWS = {
    "stuck": "operations or nodes stuck",
    "lost": "operations lost, or without a request",
    "astray": "nodes neither in the requested state nor in an explained failure",
    "unexplained": "failed operations on machines without a fault",
    "fenced": "steps recorded by a worker that did not hold them",
    "second": "second starts of an order that was running or complete",
    "holds": "holds that were lost, left over or without effect, or changed without their event",
    "stream missed": "change events that a reader of the stream has missed",
    "stream twice": "change events that a reader of the stream has got twice",
    "stream order": "change events of a node that a reader of the stream has got out of order",
    "webhook missed": "change events that the receiver of a webhook has missed",
    "webhook order": "change events of a node whose first deliveries were out of order",
    "left": "leases, messages, boot media, temporary files or processes left over",
}


def await_rest(site, seconds):
    """Wait until nothing is under way; return the seconds, and the operations that still are."""
    began = time.monotonic()
    while True:
        busy = site.query(
            "SELECT operations.uuid, operations.kind, operations.state, nodes.uuid,"
            " nodes.provision_state, nodes.reservation FROM operations"
            " JOIN nodes ON nodes.id = operations.node_id"
            " WHERE operations.state NOT IN ('succeeded', 'failed', 'aborted', 'held')"
        )
        took = time.monotonic() - began
        if not busy or took > seconds:
            return took, busy
        time.sleep(1)


def judge(site, ledger, flaky, stops, stuck):
    """Return the verdict; stuck: operations that `await_rest` gave up on."""
    verdict = Verdict()
    for row in stuck:
        verdict.blame("stuck", " ".join(map(str, row)))
    nodes = _nodes(site)
    operations = _operations(site)
    ill = {site.machines[number]["uuid"] for number in flaky}
    doubtful = doubtful_updates(operations, _dead_updates(site))
    verdict.counts["updates in doubt since their conductor died"] = len(doubtful)
    for uuid, node in nodes.items():
        _judge_node(verdict, ledger, node, operations[uuid], ill, doubtful)
        judge_operations(verdict, ledger, node, operations[uuid])
    judge_failures(verdict, operations, ill, doubtful)
    for row in audit.written_by_others(site):
        verdict.blame("fenced", " ".join(map(str, row)))
    _judge_orders(verdict, site, stops)
    _judge_media(verdict, site, nodes, ill)
    _judge_leftovers(verdict, site)
    _judge_holds(verdict, site, ledger)
    for node, verb in ledger.unknown:
        verdict.blame("lost", f"node {node}: the request to {verb} was never answered")
    claims, records, takeovers = audit.counts(site)
    verdict.counts |= {"claims": claims, "records": records, "takeovers": takeovers}
    verdict.counts["operations"] = sum(map(len, operations.values()))
    for state in ENDED:
        count = sum(
            operation["state"] == state
            for node_operations in operations.values()
            for operation in node_operations
        )
        verdict.counts[f"operations {state}"] = count
    verdict.counts["refused writes"] = site.query(
        "SELECT coalesce(sum(refused), 0) FROM operations"
    )[0][0]
    return verdict


def _nodes(site):
    names = ("uuid", "provision_state", "target", "maintenance", "fault", "reservation", "error")
    rows = site.query(
        "SELECT uuid, provision_state, target_provision_state, maintenance, fault, reservation,"
        " last_error FROM nodes"
    )
    return {row[0]: dict(zip(names, row, strict=True)) for row in rows}


def _operations(site):
    names = ("node", "uuid", "kind", "state", "error", "request", "aborting", "created")
    operations = defaultdict(list)
    for row in site.query(
        "SELECT nodes.uuid, operations.uuid, kind, state, error, request_id, aborting,"
        " operations.created_at FROM operations"
        " JOIN nodes ON nodes.id = operations.node_id ORDER BY operations.id"
    ):
        operations[row[0]].append(dict(zip(names, row, strict=True)))
    return operations


def _dead_updates(site):
    """UUIDs of the operations in which a conductor died while it updated firmware."""
    rows = site.query(
        "SELECT operations.uuid FROM operations"
        " JOIN operation_steps ON operation_steps.operation_id = operations.id"
        " WHERE interface = 'firmware' AND name = 'update' AND deaths > 0"
    )
    return {uuid for (uuid,) in rows}


def doubtful_updates(operations, dead_updates):
    """
    UUIDs of the operations that failed since no one knows whether a BMC got the order to update.

    Their conductor died between the record of the order and that of the answer, and no trace tells:
    an update is not ordered twice (docs/hardware-orders.md).
    """
    return {
        operation["uuid"]
        for node_operations in operations.values()
        for operation in node_operations
        if operation["state"] == "failed"
        and operation["uuid"] in dead_updates
        and operation["error"]["code"] == "unconfirmed"
        and operation["error"]["message"].endswith(NOT_RECORDED)
    }


def goals(entries):
    """States that a node may be in after its requests; None without a request that moves it."""
    verbs = [entry for entry in entries if entry.verb not in ("power", "maintenance")]
    if not verbs:
        return None
    last_entry = verbs[-1]
    if last_entry.verb == "abort":
        target = ABORTED[last_entry.state]
        return {target, "service failed"} if target == "active" else {target}
    if last_entry.verb == "unhold":
        held_entry = next(verb for verb in reversed(verbs) if verb.verb in GOALS)
        targets = GOALS[held_entry.verb]
        holds = sum(step["step"] == "hold" for step in _steps(held_entry))
        return targets | (_held(held_entry) if holds > 1 else set())
    return GOALS[last_entry.verb] | (_held(last_entry) if last_entry.hold else set())


def _steps(entry):
    return [
        step for name, steps in entry.arguments.items() if name.endswith("_steps") for step in steps
    ]


def _held(entry):
    return {"clean": {"clean hold"}, "service": {"service hold"}}.get(entry.verb, {"deploy hold"})


def _judge_node(verdict, ledger, node, operations, ill, doubtful):
    uuid, state = node["uuid"], node["provision_state"]
    goal_states = goals(ledger.accepted[uuid])
    if node["reservation"] is not None:
        verdict.blame("stuck", f"node {uuid} is reserved for {node['reservation']}")
    verdict.counts["nodes"] = verdict.counts.get("nodes", 0) + 1
    if goal_states is None:
        goal_states = {"enroll"}
    goal_states = goal_states | late_goals(ledger, uuid, operations)
    last_operations = [operation for operation in operations if operation["kind"] != "power"][-1:]
    if state in goal_states:
        name = "nodes in the requested state"
    elif (
        state in FAILED
        and last_operations
        and last_operations[0]["state"] == "failed"
        and (uuid in ill or last_operations[0]["uuid"] in doubtful)
    ):
        name = "nodes in a failure caused by an injected fault"
    else:
        name = "nodes astray"
        verbs = [entry.verb for entry in ledger.accepted[uuid]][-3:]
        verdict.blame(
            "astray",
            f"node {uuid} is {state!r}, wanted {goal_states} after {verbs}; last: {last_operations}",
        )
    verdict.counts[name] = verdict.counts.get(name, 0) + 1


def judge_operations(verdict, ledger, node, operations):
    """Each accepted request has begun its operation, and there are no others but of late attempts."""
    requested, begun = _requested(ledger, node["uuid"]), _begun(operations)
    later_verbs = iter(begun)
    is_complete = all(verb in later_verbs for verb in requested)  # in this order
    late = late_verbs(ledger, node["uuid"], operations)
    if not is_complete or Counter(begun) - Counter(requested) != late:
        verdict.blame("lost", f"node {node['uuid']}: accepted {requested}, begun {begun}")


def late_verbs(ledger, node, operations):
    """Count the verbs of late attempts (`Ledger.late`) that were executed."""
    unrequested = Counter(_begun(operations)) - Counter(_requested(ledger, node))
    return unrequested & Counter(verb for place, verb in ledger.late if place == node)


def late_goals(ledger, node, operations):
    """States that a node may be in after late attempts that were executed."""
    return {state for verb in late_verbs(ledger, node, operations) for state in GOALS.get(verb, ())}


def _requested(ledger, node):
    return [
        entry.verb
        for entry in ledger.accepted[node]
        if entry.verb == "power"
        or (entry.verb in GOALS and (entry.verb != "manage" or entry.state == "enroll"))
    ]


def _begun(operations):
    return [operation["kind"] for operation in operations if operation["request"]]


def judge_failures(verdict, operations, ill, doubtful=frozenset()):
    for uuid, node_operations in operations.items():
        for operation in node_operations:
            if operation["state"] != "failed":
                continue
            code = (operation["error"] or {}).get("code")
            if (uuid not in ill or code in OURS) and operation["uuid"] not in doubtful:
                failure = (
                    f"{operation['kind']} {operation['uuid']} on node {uuid} at {operation['created']}:"
                    f" {operation['error']}"
                )
                verdict.blame("unexplained", failure)


def _judge_orders(verdict, site, stops):
    late, seconds = 0, []
    totals = defaultdict(int)
    for machine in site.machines:
        log = site.machine_log(machine["number"])
        for name, count in orders.counted(log).items():
            totals[name] += count
        seconds += orders.second_starts(machine["number"], log)
    verdict.counts |= totals
    refused = site.log("step.refused", "claim.given_up") if seconds else []
    for second in seconds:
        if was_under_way(second, site.machines[second.machine]["uuid"], stops, refused):
            late += 1
            continue
        verdict.blame("second", f"machine {second.machine}: {second}")
    verdict.counts["orders under way when their process was stopped"] = late


def was_under_way(second, node, stops, refused):
    """
    Whether a second start comes from a process that was stopped between its last check and the order.

    The order arrived right after that process was continued, and its record was refused. node: UUID.
    Of a firmware update only the node is known, not the operation.
    """
    return any(
        until <= second.at + 0.2 and second.at <= until + UNDER_WAY
        and any(
            line.get("node") == node
            and (not second.operation or line.get("operation") == second.operation)
            and line.get("role") == name
            and datetime.fromisoformat(line["timestamp"]).timestamp() >= second.at
            for line in refused
        )
        for name, _, until in stops
    )  # fmt: skip


def _judge_media(verdict, site, nodes, ill):
    """No boot medium is left in a healthy machine whose node is in a requested state."""
    for machine in site.machines:
        state = nodes[machine["uuid"]]["provision_state"]
        if machine["uuid"] in ill or state not in set().union(*GOALS.values()):
            continue
        media = [medium for medium in site.machine(machine["number"])["media"].values() if medium]
        if media:
            verdict.blame("left", f"machine {machine['number']}, {state}: {media[0]}")


def _judge_holds(verdict, site, ledger):
    """Each hold has refused a request, is there until it is ended, and has one event for each."""
    uuids = {uuid for (uuid,) in site.query("SELECT uuid FROM holds")}
    set_, ended = Counter(), Counter()
    for hold in ledger.holds:
        set_[hold.node] += 1
        ended[hold.node] += hold.uuid not in uuids
        if hold.refused is False:
            verdict.blame("holds", f"{hold} has refused nothing")
        if hold.ended is not None and hold.ended == (hold.uuid in uuids):
            verdict.blame("holds", f"{hold} is {'left over' if hold.ended else 'lost'}")
    events = site.query(
        "SELECT node_uuid, count(after), count(before) FROM change_events WHERE type = 'node.hold'"
        " GROUP BY node_uuid"
    )
    event_counts = {node: counts for node, *counts in events}
    doubtful = {node for node, verb in ledger.unknown if verb == "hold"}
    for node, times in set_.items():
        if node not in doubtful and event_counts.get(node) != [times, ended[node]]:
            verdict.blame("holds", f"node {node}: events {event_counts.get(node)} of {times} holds")
    verdict.counts["holds"] = len(ledger.holds)


def _judge_leftovers(verdict, site):
    """Keys in Redis at rest. Messages come and go, so they are read several times."""
    for _ in range(40):
        keys = _keys(site)
        if not keys:
            return
        time.sleep(0.5)
    for key in keys:
        verdict.blame("left", f"Redis: {key}")


def _keys(site):
    keys = [key.decode() for key in site.redis.scan_iter(count=1000)]
    held_keys = [
        key for key in keys if ":lease:" in key or ":question:" in key or ":answer:" in key
    ]
    queues = [key for key in keys if key.startswith(("conductor", "unacked"))]
    waiting = [
        f"{key} ({site.redis.llen(key)})"
        for key in queues
        if site.redis.type(key) == b"list" and site.redis.llen(key)
    ]
    other_keys = [key for key in queues if site.redis.type(key) != b"list"]
    return held_keys + waiting + other_keys


def judge_end(verdict, site, processes):
    """Files and processes that are left after the end of the site."""
    for path in [*(site.folder / "tmp").rglob("*"), *(site.folder / "data").rglob("*")]:
        if path.is_file() and KEPT not in path.parts:
            verdict.blame("left", f"file {path.relative_to(site.folder)}")
    for process in processes:
        verdict.blame("left", f"process {process}")
