"""
Redfish service of one simulated machine: authentication, documents, and orders.

Only orders change the machine (`drivers.simulator.orders`). The BMC's faults (latency, errors, cut
connections) are applied here.
"""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable
from time import monotonic, time

from drivers.simulator.orders import ORDERS
from drivers.simulator.power import Power, WrongState
from drivers.simulator.redfish_bmc import bmc, system, volumes
from drivers.simulator.redfish_bmc.documents import MONITORS, ROOT, SESSIONS, TASKS
from drivers.simulator.redfish_bmc.volumes import DONE
from drivers.simulator.refusal import Refusal
from drivers.simulator.rude import table as rude
from drivers.simulator.server import CUT, BadJson, Request, Response, json

#: Most sessions at a time, as BMCs keep few; a new one replaces the oldest.
MAX_SESSIONS = 32
OPEN = {"/redfish", ROOT}
DOCUMENTS = {**bmc.BMC_DOCUMENTS, **system.SYSTEM_DOCUMENTS}


class Redfish:
    """Redfish service of the machine that `power` switches."""

    def __init__(self, power: Power) -> None:
        self.power = power
        self.machine = power.machine

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer a request as the BMC does, faults included."""
        faults, random = self.machine.faults, self.machine.random
        if faults.bmc_silent:
            return _silence()
        if faults.bmc_dead or (faults.drop_rate and random.random() < faults.drop_rate):
            return CUT
        if faults.latency or faults.latency_jitter:
            delay = faults.latency + random.uniform(0, faults.latency_jitter)
            return self._later(request, delay)
        return self._front(request)

    async def _later(self, request: Request, delay: float) -> Response:
        await asyncio.sleep(delay)
        return self._front(request)

    def _front(self, request: Request) -> Response:
        return rude.answer(self, request) if self.machine.faults.rude else self.answer(request)

    def answer(self, request: Request) -> Response:
        """Answer a request without rude faults."""
        machine = self.machine
        if machine.unsettled:
            machine.settle()
        path = request.path.rstrip("/")
        try:
            if machine.faults.error_rate and machine.random.random() < machine.faults.error_rate:
                raise Refusal(500, "InternalError", "The request failed due to an internal error.")
            if path not in OPEN and not self.is_authenticated(request):
                raise Refusal(401, "NoValidSession", "No valid credentials were given.")
            if request.method in ("GET", "HEAD"):
                machine.reads += 1
                response = self._show(path)
                return Response(200) if request.method == "HEAD" else response
            return self._change(request, path)
        except BadJson as error:
            return Refusal(400, "MalformedJSON", str(error)).response()
        except WrongState as error:
            return Refusal(409, "ResourceInUse", str(error)).response()
        except Refusal as refusal:
            challenge = {"WWW-Authenticate": 'Basic realm="BMC"'} if refusal.status == 401 else None
            return refusal.response(challenge)

    def carry_out(self, request: Request) -> Response:
        """Carry an order out that was authenticated before: its session may have ended since."""
        return self._change(request, request.path.rstrip("/"))

    def is_authenticated(self, request: Request) -> bool:
        """Whether a request has a valid session or password, or asks for a session."""
        if request.method == "POST" and request.path.rstrip("/") == SESSIONS:
            return True
        token = request.headers.get("x-auth-token")
        if token is not None:
            return token in self.machine.sessions.values()
        authorization = request.headers.get("authorization")
        if authorization is None:
            return False
        try:
            username, _, password = b64decode(authorization.removeprefix("Basic ")).partition(b":")
            return self._is_login(username.decode(), password.decode())
        except ValueError:
            return False

    def _is_login(self, username: object, password: object) -> bool:
        """
        Whether a login is accepted; count wrong ones.

        Raises Refusal: the user is locked out.
        """
        machine, faults = self.machine, self.machine.faults
        if isinstance(password, str):
            machine.seen_passwords.add(password)
        if monotonic() < machine.locked_until:
            if faults.lockout_hidden:
                return False
            raise Refusal(403, "AccessDenied", "The account is locked.")
        right = (username, password) == (machine.username, machine.password)
        machine.wrong_logins = 0 if right else machine.wrong_logins + 1
        if faults.lockout_after and machine.wrong_logins >= faults.lockout_after:
            machine.wrong_logins, machine.lockouts = 0, machine.lockouts + 1
            machine.locked_until = monotonic() + faults.lockout_seconds
        return right

    def _show(self, path: str) -> Response:
        machine = self.machine
        if path == "/redfish":
            return json({"v1": f"{ROOT}/"})
        document = DOCUMENTS.get(path.replace(machine.uuid, "{id}", 1))
        if document is not None:
            return json(document(machine))
        parent, _, last_part = path.rpartition("/")
        if parent == SESSIONS and last_part in machine.sessions:
            return json(bmc.session(last_part, machine.username))
        for documents in (machine.volumes, machine.subscriptions):
            if path in documents:
                return json(documents[path])
        if parent in (TASKS, MONITORS) and last_part.isdigit():
            return self._show_task(parent, int(last_part))
        raise Refusal(404, "ResourceMissingAtURI", f"There is no resource at {path}.")

    def _show_task(self, parent: str, number: int) -> Response:
        machine = self.machine
        if number >= len(machine.tasks) or machine.tasks[number].hidden:
            raise Refusal(404, "ResourceMissingAtURI", f"There is no task {number}.")
        is_running = parent != TASKS and time() < machine.tasks[number].ends
        return json(bmc.task(machine, number), 202 if is_running else 200)

    def _change(self, request: Request, path: str) -> Response:
        machine = self.machine
        template_path = path.replace(machine.uuid, "{id}", 1)
        order = ORDERS.get((request.method, template_path))
        if order is not None:
            return order(self.power, request.json())
        if (request.method, path) == ("POST", SESSIONS):
            return self._log_in(request.json())
        parent, _, last_part = path.rpartition("/")
        if request.method == "DELETE":
            if parent == SESSIONS and machine.sessions.pop(last_part, ""):
                return DONE
            if machine.subscriptions.pop(path, {}):
                machine.record("redfish", "delete subscription", last_part)
                return DONE
            if path in machine.volumes:
                return volumes.delete(machine, path, request.json())
        if template_path in DOCUMENTS:
            raise Refusal(405, "OperationNotAllowed", f"{request.method} {path} is not allowed.")
        raise Refusal(404, "ResourceMissingAtURI", f"There is no resource at {path}.")

    def _log_in(self, body: dict[str, object]) -> Response:
        machine, sessions = self.machine, self.machine.sessions
        if not self._is_login(body.get("UserName"), body.get("Password")):
            raise Refusal(401, "NoValidSession", "User name or password are wrong.")
        while len(sessions) >= MAX_SESSIONS:
            del sessions[next(iter(sessions))]
        token = f"{machine.random.getrandbits(128):032x}"
        number = token[:8]
        sessions[number] = token
        return json(
            bmc.session(number, machine.username),
            201,
            {"X-Auth-Token": token, "Location": f"{SESSIONS}/{number}"},
        )


async def _silence() -> Response:
    await asyncio.get_running_loop().create_future()
    return CUT
