"""
Demo (`make demo`): the whole service with simulated machines.

The machines are enrolled, verified, cleaned, deployed and undeployed. During the deployment, one of
the two conductors is killed, and all machines still reach their provision states.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from rich.console import Console

from app.lifecycle.provision_states import MACHINE, Kind, State
from workers.demo import display
from workers.demo.client import Api, Line
from workers.demo.display import View, format_span
from workers.demo.kill import ConductorKill
from workers.demo.stage import DemoError, Environment, environment

#: Seconds between two reads of the nodes.
TICK = 0.4
#: Seconds after which a phase has failed.
PHASE_TIMEOUT = 180.0
MOST_MACHINES = 200


@dataclass(frozen=True, slots=True)
class Phase:
    """One verb for all machines, and the provision state that it leads to."""

    name: str
    verb: str
    goal: State


VERIFY = Phase("verify", "manage", State.MANAGEABLE)
CLEAN = Phase("clean", "provide", State.AVAILABLE)
DEPLOY = Phase("deploy", "active", State.ACTIVE)
GIVE_BACK = Phase("give back", "deleted", State.AVAILABLE)


@dataclass(slots=True)
class Result:
    name: str
    machines: int
    seconds: list[float] = field(default_factory=list)  # one for each machine that succeeded

    def row(self) -> Sequence[str]:
        return (self.name, f"{len(self.seconds)} of {self.machines}", *format_span(self.seconds))


class Demo:
    """One run of all phases."""

    def __init__(self, environment: Environment, api: Api, view: View) -> None:
        self.environment, self.api, self.view = environment, api, view
        self.results: list[Result] = []
        self.machines: dict[str, str] = {}  # node UUID -> name, without the failed ones
        self.kill = ConductorKill(environment.conductors, view.say)

    def run(self) -> bool:
        """
        Run all phases; return whether they succeeded for every machine.

        Raises DemoError.
        """
        self._enrol()
        self._phase(VERIFY)
        self._phase(CLEAN)
        self._prepare_deployment()
        self._phase(DEPLOY, self.kill.update)
        self._check_disks(self.environment.image.sha256, "has the requested image")
        self._phase(GIVE_BACK, self.kill.update)
        self._check_disks(None, "is empty")
        return len(self.machines) == len(self.environment.machines)

    def summary(self) -> list[Sequence[str]]:
        return [*(result.row() for result in self.results), self.kill.row()]

    def update(self, title: str) -> list[Line]:
        """
        Read and display the states of all nodes.

        Raises DemoError.
        """
        self.environment.check()
        lines = self.api.lines()
        self.view.show(title, lines, self.kill.notes)
        return lines

    def _enrol(self) -> None:
        start, result = time.monotonic(), self._result("enrol")
        for machine in self.environment.machines:
            node = {
                "name": machine["name"],
                "driver": "redfish",
                "driver_info": {
                    "redfish_address": machine["redfish_address"],
                    "redfish_system_id": machine["system_id"],
                    "redfish_username": "admin",
                    "redfish_password": "admin",
                    "deploy_iso": self.environment.medium,
                },
            }
            uuid = self.api.call("POST", "/v1/nodes", node)["uuid"]
            port = {"node_uuid": uuid, "address": machine["mac"]}
            self.api.call("POST", "/v1/ports", port)
            self.machines[uuid] = machine["name"]
            result.seconds.append(time.monotonic() - start)
        self.view.say(f"enrolled {len(self.machines)} machines through the API")

    def _prepare_deployment(self) -> None:
        image = self.environment.image
        info = {
            "image_source": image.url,
            "image_os_hash_algo": "sha256",
            "image_os_hash_value": image.sha256,
            "image_disk_format": "raw",
        }
        for uuid in self.machines:
            patch = [{"op": "add", "path": "/instance_info", "value": info}]
            self.api.call("PATCH", f"/v1/nodes/{uuid}", patch)

    def _phase(
        self, phase: Phase, observe: Callable[[Sequence[Line]], None] = lambda _lines: None
    ) -> None:
        """
        Request the verb for every machine, and wait until each has reached the goal or failed.

        observe: called with the nodes after each read.
        """
        start, result = time.monotonic(), self._result(phase.name)
        for uuid in self.machines:
            self.api.call("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": phase.verb})
        active = set(self.machines)
        title = f"{phase.name} {result.machines} machines"
        while active:
            lines = self.update(f"{title}, {len(result.seconds)} done")
            observe(lines)
            timed_out = time.monotonic() - start > PHASE_TIMEOUT
            for line in lines:
                if line.uuid not in active:
                    continue
                if line.provision_state == phase.goal and not line.reserved:
                    active.remove(line.uuid)
                    result.seconds.append(time.monotonic() - start)
                elif timed_out or line.maintenance or stuck(line):
                    active.remove(line.uuid)
                    reason = line.last_error or ("timeout" if timed_out else "no reason given")
                    self._fail(
                        line.uuid, f"{phase.name} ended in {line.provision_state!r}: {reason}"
                    )
            time.sleep(TICK if active else 0)
        self.update(f"{title}, {len(result.seconds)} done")
        progress = f"{len(result.seconds)} of {result.machines} machines are {phase.goal}"
        self.view.say(f"{phase.name}: {progress} after {time.monotonic() - start:.1f} s")

    def _result(self, name: str) -> Result:
        self.results.append(Result(name, len(self.environment.machines)))
        return self.results[-1]

    def _fail(self, uuid: str, reason: str) -> None:
        self.view.say(f"{self.machines.pop(uuid)} failed: {reason}")

    def _check_disks(self, sha256: str | None, predicate: str) -> None:
        """Compare the disks of the simulated machines with the expected checksum."""
        with Api(self.environment.control) as simulator:
            machines = simulator.call("GET", "/sim/machines")
        disks = {machine["name"]: machine["disk"] for machine in machines}
        matching_count = 0
        for uuid, name in list(self.machines.items()):
            disk_checksum = disks[name]["sha256"] if disks[name] else None
            if disk_checksum == sha256:
                matching_count += 1
            else:
                self._fail(uuid, f"the checksum of its disk is {disk_checksum}, not {sha256}")
        self.view.say(f"the disk of {matching_count} machines {predicate}")


def stuck(line: Line) -> bool:
    """Whether a node is in a stable or failed state without an operation."""
    kind = MACHINE[State(line.provision_state)].kind
    return kind in (Kind.STABLE, Kind.FAILED) and not line.reserved


def commands(url: str, node: str) -> str:
    """Return example commands for the running service; node: name of a node."""
    script = Path(sys.executable).with_name("ingot")
    ingot = f"{script}" if script.exists() else f"{sys.executable} -m workers.ingot"
    examples = ("list", f"why {node}", f"operations {node}", f"power {node} on --wait")
    return "\n".join(
        [
            f"the service runs at {url} until Ctrl-C (API documentation: {url}/docs); try",
            f"  # in a browser: {url}/ui",
            f"  export INGOT_URL={url}",
            *(f"  {ingot} node {example}" for example in examples),
        ]
    )


def play(console: Console, machines: int, pace: float, *, once: bool) -> int:
    """Run the demo; unless `once`, keep the service running. Return the exit status."""
    console.print(f"starting {machines} simulated machines, and the service", highlight=False)
    with environment(machines, pace) as running_environment, Api(running_environment.url) as api:
        view = display.make(console)
        demo = Demo(running_environment, api, view)
        try:
            view.say(f"the service answers at {running_environment.url}")
            succeeded = demo.run()
        finally:
            view.close()
        display.summary(console, demo.summary())
        status = 0 if succeeded else 1
        if not once:
            node = api.lines()[0].name
            text = commands(running_environment.url, node)
            console.print(text, highlight=False, soft_wrap=True, markup=False)
            wait(running_environment)
    return status


def wait(environment: Environment) -> None:
    """
    Wait for Ctrl-C.

    Raises DemoError: a child has ended.
    """
    try:
        while True:
            environment.check()
            time.sleep(1)
    except KeyboardInterrupt:
        return


def interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workers.demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end after the last phase")
    parser.add_argument("--machines", type=int, default=8)
    parser.add_argument("--pace", type=float, default=1.0, help="factor on the machines' delays")
    arguments = parser.parse_args()
    if not 1 <= arguments.machines <= MOST_MACHINES:
        parser.error(f"--machines: from 1 to {MOST_MACHINES}")
    if not 0 <= arguments.pace <= 100:
        parser.error("--pace: from 0 to 100")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        return play(Console(), arguments.machines, arguments.pace, once=arguments.once)
    except DemoError as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("demo: stopped\n")
        return 130
