"""
The failover experiment: kill -9 of one of two conductors with operations in every state.

The figures of Ironic 39 are from the same experiment: it loses all operations of a dead conductor.
Busy states are those of machines whose BMCs answer slowly, wait states those of machines that boot.
"""

import statistics
import time
from dataclasses import dataclass, field

import requests

from app.config import options
from app.config.settings import Settings
from tests.chaos import audit, judge
from tests.chaos.site import SETTINGS, VERSION, Site
from tests.support.fleet import until

#: busy state -> (state before, verb, arguments)
BUSY = {
    "deploying": ("available", "active", {}),
    "cleaning": ("manageable", "provide", {}),
    "deleting": ("active", "deleted", {}),
    "inspecting": ("manageable", "inspect", {}),
    "servicing": (
        "active",
        "service",
        {"service_steps": [{"interface": "raid", "step": "delete_configuration"}]},
    ),
    "rescuing": ("active", "rescue", {"rescue_password": "open sesame"}),
}
WAITING = "clean wait"
IDLE = "idle: first PATCH accepted"
#: Results of Ironic 39, by state: (defaults, tuned).
IRONIC = {
    "deploying": ("failed after 112 s", "failed after 14 s"),
    "cleaning": ("failed after 115 s", "failed after 15 s"),
    **dict.fromkeys(
        ("deleting", "inspecting", "servicing", "rescuing"), ("stuck for good", "stuck for good")
    ),
    WAITING: ("survives", "survives"),
    IDLE: ("66 s of 500s", "10 s of 500s"),
}
#: Latency of a BMC, and time to boot of a machine, in seconds, at the time of the death.
SLOW_BMC, SLOW_BOOT = 4, 20
_DEFAULTS = {
    option.variable: str(option.default)
    for option in options.options(Settings)
    if option.variable in SETTINGS and option.group == "conductor"
}
_COMMON = {
    "INGOT_CONDUCTOR_WORKERS_POOL_SIZE": "64",
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "0",
    "INGOT_CONDUCTOR_MAX_CONCURRENT_CLEAN": "5000",
}
#: name of a variant -> settings
WAYS = {
    "defaults": _DEFAULTS | _COMMON,
    "tuned": {
        "INGOT_CONDUCTOR_HEARTBEAT_INTERVAL": "0.5",
        "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "2",
        "INGOT_CONDUCTOR_LEASE_TTL": "1",
        "INGOT_CONDUCTOR_RECONCILE_INTERVAL": "0.5",
        "INGOT_CONDUCTOR_RESEND_AFTER": "1",
    }
    | _COMMON,
}
DEAD = "c-1"


@dataclass(slots=True)
class Result:
    """Results by state."""

    resumed: dict = field(
        default_factory=dict
    )  # seconds from the death to each operation's next claim
    lost: dict = field(default_factory=dict)  # number of operations


def measure(folder, way, size, seed):
    """Measure one death, with `size` nodes in each state. way: a key of WAYS."""
    count = size * (len(BUSY) + 1)
    with Site(folder, count, seed, conductors=2, pace={"step_seconds": 0.2}, **WAYS[way]) as site:
        audit.lay(site)
        all_nodes = site.enrol()
        parts = [all_nodes[at : at + size] for at in range(0, count, size)]
        nodes = dict(zip((*BUSY, WAITING), parts, strict=True))
        idle = _idle_nodes(site, size)
        _settle(site, nodes[WAITING], "manageable")
        _make(site, nodes[WAITING], boot_seconds=SLOW_BOOT)
        for node in nodes[WAITING]:
            _ask(site, node, "provide")
        until(lambda: _count(site, nodes[WAITING], WAITING) == size, "waits")
        for state, (initial_state, verb, arguments) in BUSY.items():
            _settle(site, nodes[state], initial_state)
            _make(site, nodes[state], latency=SLOW_BMC)
            for node in nodes[state]:
                _ask(site, node, verb, **arguments)
        until(lambda: all(_running(site, nodes[state]) == size for state in BUSY), "work")
        owned = _owned(site)
        died = time.time()
        site.kill(DEAD)
        result = Result()
        result.resumed[IDLE] = [_patched(site, node, died) for node in idle]
        result.lost[IDLE] = 0
        _make(site, all_nodes, latency=None)
        judge.await_rest(site, 300)
        for state, its in nodes.items():
            _judge(site, result, state, [node for node in its if node in owned], died)
        return result


def _judge(site, result, state, nodes, died):
    """Add the delay of each node's operation in a state, and the number of those that were lost."""
    result.resumed[state], result.lost[state] = [], 0
    for node in nodes:
        (operation, ended) = site.query(
            "SELECT operations.id, operations.state FROM operations JOIN nodes"
            " ON nodes.id = operations.node_id WHERE nodes.uuid = %s"
            " ORDER BY operations.id DESC LIMIT 1", node,
        )[0]  # fmt: skip
        result.lost[state] += ended != "succeeded"
        claims = site.query(
            "SELECT extract(epoch FROM min(at)) FROM chaos_moves WHERE operation = %s"
            " AND new_state = 'running' AND at > to_timestamp(%s)", operation, died,
        )  # fmt: skip
        if claims[0][0] is not None:
            result.resumed[state].append(float(claims[0][0]) - died)


def _owned(site):
    """Nodes whose current operation was last claimed by the conductor that will die."""
    rows = site.query(
        "SELECT DISTINCT ON (nodes.uuid) nodes.uuid, chaos_moves.who FROM chaos_moves"
        " JOIN operations ON operations.id = chaos_moves.operation"
        " JOIN nodes ON nodes.id = operations.node_id WHERE chaos_moves.new_state = 'running'"
        " ORDER BY nodes.uuid, chaos_moves.id DESC"
    )
    return {node for node, role in rows if role.startswith(f"{DEAD}.")}


def _idle_nodes(site, count):
    """Create nodes without operations."""
    nodes = []
    for _ in range(count):
        body = {"driver": "fake-hardware"}
        answer = requests.post(f"{site.url}/v1/nodes", json=body, headers=VERSION, timeout=30)
        assert 201 == answer.status_code, answer.text
        nodes.append(answer.json()["uuid"])
    return nodes


def _make(site, nodes, **faults):
    for machine in site.machines:
        if machine["uuid"] in nodes:
            site.set_faults(machine["number"], **faults)


def _settle(site, nodes, state):
    site.query("UPDATE nodes SET provision_state = %s WHERE uuid = ANY(%s)", state, nodes)


def _ask(site, node, verb, **arguments):
    path = f"{site.url}/v1/nodes/{node}/states/provision"
    body = {"target": verb, **arguments}
    answer = requests.put(path, json=body, headers=VERSION, timeout=30)
    assert 202 == answer.status_code, answer.text


def _patched(site, node, died):
    """Return the seconds from the death until a change of an idle node is accepted."""
    change = [{"op": "add", "path": "/extra/after", "value": "a death"}]
    path = f"{site.url}/v1/nodes/{node}"

    def accepted():
        return requests.patch(path, json=change, headers=VERSION, timeout=30).status_code == 200

    until(accepted, "the PATCH", 120, 0.2)
    return time.time() - died


def _count(site, nodes, state):
    return site.query(
        "SELECT count(*) FROM nodes WHERE uuid = ANY(%s) AND provision_state = %s", nodes, state
    )[0][0]


def _running(site, nodes):
    return site.query(
        "SELECT count(*) FROM operations JOIN nodes ON nodes.id = operations.node_id"
        " WHERE nodes.uuid = ANY(%s) AND operations.state = 'running'", nodes,
    )[0][0]  # fmt: skip


def shown(results):
    """Results as a Markdown table. results: way -> Result."""
    lines = [
        "| interrupted in | Ironic 39, defaults | Ironic 39, tuned |"
        + "".join(f" Ingot, {way}: lost of N | resumed after, median / worst |" for way in results),
        "| --- " * (3 + 2 * len(results)) + "|",
    ]
    for state in (*BUSY, WAITING, IDLE):
        cells = [state, *IRONIC[state]]
        for result in results.values():
            seconds = result.resumed[state]
            count = max(len(seconds), result.lost[state])
            cells.append(f"{result.lost[state]} of {count}")
            if not seconds or state == WAITING:
                cells.append("when their agent calls" if seconds else "-")
            else:
                cells.append(f"{statistics.median(seconds):.1f} s / {max(seconds):.1f} s")
        lines.append("| " + " | ".join(cells) + " |")
    total = ["**operations lost**", "**25 of 25**", "**26 of 26**"]
    for result in results.values():
        count = sum(len(seconds) for state, seconds in result.resumed.items() if state != IDLE)
        worst = max(
            max(seconds, default=0) for state, seconds in result.resumed.items() if state != WAITING
        )
        total += [f"**{sum(result.lost.values())} of {count}**", f"**worst {worst:.1f} s**"]
    lines.append("| " + " | ".join(total) + " |")
    return "\n".join(lines) + "\n"
