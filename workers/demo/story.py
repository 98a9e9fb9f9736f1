"""
`make demo`: the whole service and a rack of simulated machines, before your eyes.

The machines are enrolled, verified, cleaned, deployed and given back. While they are deployed, one
of the two conductors is killed, and every machine still gets where it should.
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

from app.states import MACHINE, Kind, State
from workers.demo import display
from workers.demo.client import Api, Line
from workers.demo.display import View, span
from workers.demo.kill import Strike
from workers.demo.stage import DemoError, Stage, stage

#: Seconds between two looks at the nodes.
TICK = 0.4
#: Seconds after which a phase has failed.
PATIENCE = 180.0
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
    """What came of a phase: seconds until a machine arrived, for each that did."""

    name: str
    machines: int
    seconds: list[float] = field(default_factory=list)

    def row(self) -> Sequence[str]:
        return (self.name, f"{len(self.seconds)} of {self.machines}", *span(self.seconds))


class Show:
    """The story, told of the machines on a stage."""

    def __init__(self, scene: Stage, api: Api, view: View) -> None:
        self.stage, self.api, self.view = scene, api, view
        self.results: list[Result] = []
        self.on_the_way: dict[str, str] = {}  # UUID -> name of the machines not lost so far
        self.strike = Strike(scene.conductors, view.say)

    def run(self) -> bool:
        """Tell it; whether every machine arrived. Raises DemoError."""
        self._enrol()
        self._phase(VERIFY)
        self._phase(CLEAN)
        self._prepare_deployment()
        self._phase(DEPLOY, self.strike.look)
        self._inspect_disks(self.stage.image.sha256, "holds the image that was asked for")
        self._phase(GIVE_BACK, self.strike.look)
        self._inspect_disks(None, "is empty")
        return len(self.on_the_way) == len(self.stage.machines)

    def summary(self) -> list[Sequence[str]]:
        return [*(each.row() for each in self.results), self.strike.row()]

    def look(self, title: str) -> list[Line]:
        """Show where all nodes stand. Raises DemoError."""
        self.stage.check()
        lines = self.api.lines()
        self.view.show(title, lines, self.strike.notes)
        return lines

    def _enrol(self) -> None:
        start, result = time.monotonic(), self._result("enrol")
        for machine in self.stage.machines:
            node = {
                "name": machine["name"],
                "driver": "redfish",
                "driver_info": {
                    "redfish_address": machine["redfish_address"],
                    "redfish_system_id": machine["system_id"],
                    "redfish_username": "admin",
                    "redfish_password": "admin",
                    "deploy_iso": self.stage.medium,
                },
            }
            uuid = self.api.call("POST", "/v1/nodes", node)["uuid"]
            port = {"node_uuid": uuid, "address": machine["mac"]}
            self.api.call("POST", "/v1/ports", port)
            self.on_the_way[uuid] = machine["name"]
            result.seconds.append(time.monotonic() - start)
        self.view.say(f"enrolled {len(self.on_the_way)} machines through the API")

    def _prepare_deployment(self) -> None:
        image = self.stage.image
        info = {
            "image_source": image.url,
            "image_os_hash_algo": "sha256",
            "image_os_hash_value": image.sha256,
            "image_disk_format": "raw",
        }
        for uuid in self.on_the_way:
            patch = [{"op": "add", "path": "/instance_info", "value": info}]
            self.api.call("PATCH", f"/v1/nodes/{uuid}", patch)

    def _phase(
        self, phase: Phase, also: Callable[[Sequence[Line]], None] = lambda _lines: None
    ) -> None:
        """
        Ask for the verb and follow every machine until it is there, or lost.

        also: called with every look at the nodes.
        """
        start, result = time.monotonic(), self._result(phase.name)
        for uuid in self.on_the_way:
            self.api.call("PUT", f"/v1/nodes/{uuid}/states/provision", {"target": phase.verb})
        moving = set(self.on_the_way)
        title = f"{phase.name} {result.machines} machines"
        while moving:
            lines = self.look(f"{title}, {len(result.seconds)} there")
            also(lines)
            late = time.monotonic() - start > PATIENCE
            for line in lines:
                if line.uuid not in moving:
                    continue
                if line.provision_state == phase.goal and not line.reserved:
                    moving.remove(line.uuid)
                    result.seconds.append(time.monotonic() - start)
                elif late or line.maintenance or stuck(line):
                    moving.remove(line.uuid)
                    why = line.last_error or ("it took too long" if late else "no reason given")
                    self._lose(line.uuid, f"{phase.name} ended in {line.provision_state!r}: {why}")
            time.sleep(TICK if moving else 0)
        self.look(f"{title}, {len(result.seconds)} there")
        there = f"{len(result.seconds)} of {result.machines} machines are {phase.goal}"
        self.view.say(f"{phase.name}: {there} after {time.monotonic() - start:.1f} s")

    def _result(self, name: str) -> Result:
        self.results.append(Result(name, len(self.stage.machines)))
        return self.results[-1]

    def _lose(self, uuid: str, why: str) -> None:
        self.view.say(f"{self.on_the_way.pop(uuid)} is lost: {why}")

    def _inspect_disks(self, sha256: str | None, wanted: str) -> None:
        """Look into the machines themselves, beside the service."""
        with Api(self.stage.control) as simulator:
            machines = simulator.call("GET", "/sim/machines")
        disks = {each["name"]: each["disk"] for each in machines}
        good = 0
        for uuid, name in list(self.on_the_way.items()):
            found = disks[name]["sha256"] if disks[name] else None
            if found == sha256:
                good += 1
            else:
                self._lose(uuid, f"its disk holds {found}, not {sha256}")
        self.view.say(f"the disk of {good} machines {wanted}")


def stuck(line: Line) -> bool:
    """Whether nothing will happen to a node unless somebody asks."""
    kind = MACHINE[State(line.provision_state)].kind
    return kind in (Kind.STABLE, Kind.FAILED) and not line.reserved


def commands(url: str, node: str) -> str:
    """What to try while the service runs; node: the name of one."""
    script = Path(sys.executable).with_name("ingot")
    ingot = f"{script}" if script.exists() else f"{sys.executable} -m workers.ingot"
    asked = ("list", f"why {node}", f"operations {node}", f"power {node} on --wait")
    return "\n".join(
        [
            f"the service runs at {url} until Ctrl-C (what it can do: {url}/docs); try",
            f"  export INGOT_URL={url}",
            *(f"  {ingot} node {words}" for words in asked),
        ]
    )


def play(console: Console, machines: int, pace: float, *, once: bool) -> int:
    """Set the stage, tell the story, and leave it open unless `once`. The exit status."""
    console.print(f"starting {machines} simulated machines, and the service", highlight=False)
    with stage(machines, pace) as scene, Api(scene.url) as api:
        view = display.make(console)
        show = Show(scene, api, view)
        try:
            view.say(f"the service answers at {scene.url}")
            arrived = show.run()
        finally:
            view.close()
        display.summary(console, show.summary())
        status = 0 if arrived else 1
        if not once:
            node = api.lines()[0].name
            console.print(commands(scene.url, node), highlight=False, soft_wrap=True, markup=False)
            wait(scene)
    return status


def wait(scene: Stage) -> None:
    """Return at Ctrl-C. Raises DemoError when something has ended by itself."""
    try:
        while True:
            scene.check()
            time.sleep(1)
    except KeyboardInterrupt:
        return


def interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workers.demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end after the show")
    parser.add_argument("--machines", type=int, default=8)
    parser.add_argument("--pace", type=float, default=1.0, help="scales the machines' delays")
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


if __name__ == "__main__":
    sys.exit(main())
