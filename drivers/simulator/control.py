"""
Control endpoint of the simulator, for tests and operators. Real hardware has no such endpoint.

GET  /agent.iso?api=URL[&ipa-...=...]   a medium that boots the agent
GET  /agent.kernel, /agent.ramdisk      parts of such a medium; their content is arbitrary
GET  /sim/machines, /sim/machines/N, /sim/machines/N/log
GET  /sim/faults, POST /sim/faults, POST /sim/machines/N/faults   see `fault_settings`
POST /sim/machines/N/power {"state": "on" | "off"}   press the machine's power button
POST /sim/machines/N/event   have the BMC send this event, an object of `Events` in DSP0266
GET  /sim/machines/N/account   the BMC's user, its password, and all passwords that were ever sent
POST /sim/machines/N/account {"password": TEXT}   set it, as at the BMC's own console
"""

from drivers.simulator import media
from drivers.simulator.fault_settings import BadFault, shown
from drivers.simulator.fleet import Fleet
from drivers.simulator.machine import Machine
from drivers.simulator.server import BadJson, Request, Response, json


class Control:
    """Control endpoint of one simulator."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def handle(self, request: Request) -> Response:
        try:
            if request.path == "/agent.iso" and request.method in ("GET", "HEAD"):
                return self._medium(request)
            if request.path in media.PARTS and request.method in ("GET", "HEAD"):
                return Response(200, media.part(request.path), headers={"ETag": '"1"'})
            parts = request.path.strip("/").split("/")
            if parts[:2] == ["sim", "faults"] and len(parts) == 2:
                return self._faults(request, None)
            if parts[:2] == ["sim", "machines"]:
                return self._machines(request, parts[2:])
        except (BadJson, BadFault) as error:
            return json({"error": str(error)}, 400)
        return json({"error": f"there is nothing at {request.method} {request.path}"}, 404)

    def _medium(self, request: Request) -> Response:
        args = request.args()
        if "api" not in args:
            return json({"error": "the parameter api=URL is missing"}, 400)
        image = media.medium({"ipa-api-url": args.pop("api"), **args})
        return Response(200, image, type="application/x-iso9660-image")

    def _machines(self, request: Request, path_parts: list[str]) -> Response:
        machines = self._fleet.machines
        if not path_parts:
            return json([machine.describe() for machine in machines])
        if not path_parts[0].isdigit() or int(path_parts[0]) >= len(machines):
            return json({"error": f"there is no machine {path_parts[0]}"}, 404)
        number = int(path_parts[0])
        match (request.method, *path_parts[1:]):
            case ("GET",):
                return json(machines[number].describe())
            case ("GET", "log"):
                return json(list(machines[number].log))
            case (_, "faults"):
                return self._faults(request, number)
            case ("POST", "power"):
                state = request.json().get("state")
                if state not in ("on", "off"):
                    return json({"error": f"state must be on or off, not {state!r}"}, 400)
                self._fleet.press(number, on=state == "on")
                return json(machines[number].describe())
            case ("POST", "event"):
                self._fleet.send_event(number, request.json())
                return json(machines[number].describe())
            case (_, "account"):
                return self._account(request, machines[number])
        return json({"error": f"there is nothing at {request.method} {request.path}"}, 404)

    def _account(self, request: Request, machine: Machine) -> Response:
        if request.method == "POST":
            password = request.json().get("password")
            if not isinstance(password, str) or not password:
                return json({"error": f"password must be a text, not {password!r}"}, 400)
            machine.set_password(password)
        return json(machine.describe_account())

    def _faults(self, request: Request, number: int | None) -> Response:
        if request.method == "POST":
            self._fleet.set_faults(number, **request.json())
        return json(shown(self._fleet.faults(number)))
