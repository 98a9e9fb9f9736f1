"""
Replay of a recorded BMC: reads are answered as recorded, and the power state follows power orders.

Any login is accepted. An order other than for power is refused with 405, as its effects are not
recorded.
"""

import re
from typing import Self
from urllib.parse import unquote

import orjson

from drivers.core.recording.bundle import OWN_HOST, Answer, Recording
from drivers.simulator.redfish_bmc.documents import SESSIONS, resource
from drivers.simulator.refusal import Refusal
from drivers.simulator.server import Request, Response, Server, json

#: ResetType -> power state after it
STATES = {
    "On": "On", "ForceOn": "On", "ForceRestart": "On", "GracefulRestart": "On", "PowerCycle": "On",
    "ForceOff": "Off", "GracefulShutdown": "Off", "Nmi": "On",
}  # fmt: skip
#: Address of the replay.
ADDRESS = "127.77.1.1"
RESET = "/Actions/ComputerSystem.Reset"
_OWN = re.compile(rf"https?:(?://|\\/\\/){re.escape(OWN_HOST)}")


class RecordedBmc:
    """A recorded BMC. `redfish_address` is its URL, known once it listens."""

    def __init__(self, recording: Recording) -> None:
        self.redfish_address = ""
        self.system = recording.system
        self._answers = {_decoded(answer.path): answer for answer in recording.answers}
        self._unread = {_decoded(path) for path in recording.unread}
        self._power: dict[str, str] = {}  # path of a system -> state after the last order
        self._logins = 0

    def describe(self) -> dict[str, object]:
        """Return the machine as the program prints it."""
        return {"redfish_address": self.redfish_address, "system_id": self.system}

    def handle(self, request: Request) -> Response:
        """Answer a request."""
        try:
            if request.method in ("GET", "HEAD"):
                response = self._show(request)
                return response if request.method == "GET" else Response(response.status)
            return self._order(request, request.path.rstrip("/"))
        except ValueError as error:
            return Refusal(400, "MalformedJSON", str(error)).response()
        except Refusal as refusal:
            return refusal.response({"Allow": "GET, HEAD"} if refusal.status == 405 else None)

    def _show(self, request: Request) -> Response:
        query = f"?{request.query}" if request.query else ""
        answer = self._find(request.path, query)
        if answer is None:
            left_out = self._find_in_unread(request.path)
            text = "is left out of the recording" if left_out else "is not in the recording"
            raise Refusal(404, "ResourceMissingAtURI", f"{request.path}{query} {text}.")
        body = _OWN.sub(self.redfish_address, answer.body).encode(answer.encoding)
        state = self._power.get(request.path.rstrip("/"))
        if state is not None and answer.status == 200:
            body = orjson.dumps({**_object(answer), "PowerState": state})
        headers = {
            name: _OWN.sub(self.redfish_address, value) for name, value in answer.headers.items()
        }
        kind = headers.pop("Content-Type", "application/json")
        return Response(answer.status, body, headers, kind)

    def _find(self, path: str, query: str) -> Answer | None:
        """Return the answer to a path; a redirect between two forms of the path is kept."""
        for form in (path, path.rstrip("/"), f"{path.rstrip('/')}/"):
            if answer := self._answers.get(_decoded(form + query)):
                return answer
        return None

    def _find_in_unread(self, path: str) -> bool:
        return bool({path, path.rstrip("/"), f"{path}/"} & self._unread)

    def _order(self, request: Request, path: str) -> Response:
        if path == SESSIONS and request.method == "POST" and self._find(SESSIONS, ""):
            self._logins += 1
            location = f"{SESSIONS}/{self._logins}"
            headers = {"X-Auth-Token": f"token-{self._logins}", "Location": location}
            return json(resource(location, "Session.v1_3_0.Session", "User Session"), 201, headers)
        if path.startswith(f"{SESSIONS}/") and request.method == "DELETE":
            return Response(204)
        system = path.removesuffix(RESET)
        if request.method == "POST" and path != system and self._find(system, ""):
            kind = request.json().get("ResetType")
            if kind not in STATES:
                text = f"ResetType cannot be {kind!r}."
                raise Refusal(400, "ActionParameterNotSupported", text)
            self._power[system] = STATES[str(kind)]
            return Response(204)
        text = f"This is the replay of a recording: {request.method} {path} has no effect."
        raise Refusal(405, "OperationNotAllowed", text)


class Replay:
    """Server of a recorded BMC, at `port` (0: any free port)."""

    def __init__(self, recording: Recording, port: int = 0) -> None:
        self._bmc = RecordedBmc(recording)
        self._port = port
        self._server = Server()

    @property
    def url(self) -> str:
        return self._bmc.redfish_address

    @property
    def machines(self) -> list[RecordedBmc]:
        return [self._bmc]

    async def __aenter__(self) -> Self:
        port = await self._server.listen(ADDRESS, self._port, self._bmc.handle)
        self._bmc.redfish_address = f"http://{ADDRESS}:{port}"
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._server.stop()


def _decoded(path: str) -> str:
    """Return a path in one form: clients differ in the characters that they encode."""
    return unquote(path)


def _object(answer: Answer) -> dict[str, object]:
    document = answer.document()
    return document if isinstance(document, dict) else {}
