"""The doctor finds nothing wrong with a fleet that works or is stopped; it finds dead processes."""

import json
import os
import signal

from tests.chaos.test_faults import SLOW
from tests.support import programs
from tests.support.fleet import Fleet, until


def doctor(fleet, *options):
    """Return exit status and findings of `ingot doctor`."""
    words = ("doctor", "-o", "json", "--data-dir", fleet.data, *options)
    answer = programs.run("workers.cli:main", argv=words, environ=fleet.environ)
    return answer.status, [
        (finding["check"], finding["subject"]) for finding in json.loads(answer.out)
    ]


def test_the_doctor_finds_nothing_in_a_working_or_stopped_fleet_but_dead_processes(tmp_path):
    with Fleet(tmp_path, conductors=2, **SLOW) as fleet:
        nodes = fleet.create_nodes(8)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        for verb, state in (("provide", "available"), ("active", "active")):
            fleet.provision(nodes, verb)
            assert (0, []) == doctor(fleet)
            fleet.await_state(nodes, state)

        for name in ("beat", "redis"):  # the fleet restarts nothing
            (pid,) = fleet.pids()[name]
            os.kill(pid, signal.SIGKILL)
            until(lambda name=name: not fleet.pids()[name], "the death")
        impeded = [("impeded conductors", f"conductor fleet-{number}") for number in (1, 2)]
        findings = (1, [("redis", "redis"), ("beat", "beat"), *impeded])
        until(lambda: findings == doctor(fleet), "the end of beat's lead, and both impediments")
    assert [] == [finding for finding in doctor(fleet)[1] if finding[0] != "redis"]
