"""The doctor finds nothing in a fleet that works, nor when it is stopped; and sees what it lacks."""

import json
import os
import signal
import subprocess
import sys

from tests.chaos.test_faults import SLOW
from tests.support.fleet import ROOT, Fleet, until


def doctor(fleet, *options):
    """Exit status and findings of `ingot doctor`."""
    command = [sys.executable, "-m", "workers.cli", "doctor", "-o", "json"]
    answer = subprocess.run(
        [*command, "--data-dir", str(fleet.data), *options],
        cwd=ROOT, env=fleet.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return answer.returncode, [
        (each["check"], each["subject"]) for each in json.loads(answer.stdout)
    ]


def test_a_fleet_that_works_is_well_and_so_is_one_that_is_stopped(tmp_path):
    with Fleet(tmp_path, conductors=2, **SLOW) as fleet:
        nodes = fleet.create_nodes(8)
        fleet.provision(nodes, "manage")
        fleet.await_state(nodes, "manageable")
        for verb, state in (("provide", "available"), ("active", "active")):
            fleet.provision(nodes, verb)
            assert (0, []) == doctor(fleet)
            fleet.await_state(nodes, state)

        for name in ("beat", "redis"):  # what ends stays away
            (pid,) = fleet.pids()[name]
            os.kill(pid, signal.SIGKILL)
            until(lambda name=name: not fleet.pids()[name], "the death")
        told = (1, [("redis", "redis"), ("beat", "beat")])
        until(lambda: told == doctor(fleet), "the end of the lead")
    assert [] == [each for each in doctor(fleet)[1] if each[0] != "redis"]
