"""
Simulated agent: inspection callback, lookup, heartbeats and commands.

Implements the wire protocol of ironic-python-agent 13; the commands are in `commands.py`. Runs on a
simulated machine, or standalone next to another BMC:

    agent = Agent("http://127.0.0.1:6385", ["52:54:00:00:00:01"], "127.0.0.1", 0)
    await agent.start()
    ...
    await agent.stop()
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import aiohttp

from drivers.simulator.commands import COMMANDS, Entry, Failed
from drivers.simulator.machine import Machine, build
from drivers.simulator.ramdisk import Ramdisk
from drivers.simulator.redfish_bmc.inventory import inventory
from drivers.simulator.server import CUT, BadJson, Request, Response, Server, json

VERSION = "13.0.0"
LOOKUP_TIMEOUT = 600.0  # seconds
#: Seconds to wait after the first, second and third 409 to a lookup.
CONFLICT_WAITS = (5.0, 10.0, 30.0)
TOKEN_LENGTH = 32  # shorter tokens are ignored
HIDDEN = "******"  # in place of a token that another agent has


@dataclass(slots=True)
class Command:
    """A command of the agent, as in its command list."""

    name: str
    id: str = field(default_factory=lambda: str(uuid4()))
    status: str = "RUNNING"
    error: Mapping[str, Any] | None = None
    result: Any = None

    def document(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "command_name": self.name,
            "command_status": self.status,
            "command_error": self.error,
            "command_result": self.result,
        }


class Fatal(Exception):
    """The agent ends; the message becomes its state."""


class Agent(Ramdisk):
    """
    The agent of the machine with `macs`, for the service at `api_url`.

    - api_url: one URL, or several separated by commas.
    - address, port: where the agent's API listens.
    - token: from the boot medium; by default, the lookup issues one.
    - machine: the simulated machine; by default a new one.
    - client: shared HTTP client; by default, `start` creates a client and a listener.
    - on_power: called with "off" or "restart" when a command of the agent demands it.
    """

    def __init__(
        self,
        api_url: str,
        macs: Sequence[str],
        address: str,
        port: int,
        *,
        token: str | None = None,
        insecure: bool = False,
        inspection_url: str | None = None,
        machine: Machine | None = None,
        client: aiohttp.ClientSession | None = None,
        on_power: Callable[[str], None] = lambda _kind: None,
    ) -> None:
        self.api_urls = [url.strip().rstrip("/") for url in api_url.split(",")]
        machine = machine or build(0, address, port, seed=0)
        super().__init__(machine, macs, client, on_power, insecure=insecure)
        self.address, self.port = address, port
        self.token = token
        self.inspection_url = inspection_url
        self.commands: list[Command] = []
        self.heartbeats = 0
        self._server: Server | None = None
        self._service_version: tuple[int, int] | None = None
        self._wake = asyncio.Event()

    async def start(self) -> None:
        """Listen at address:port, and run. Raises OSError."""
        self._client = aiohttp.ClientSession()
        self._server = Server()
        self.port = await self._server.listen(self.address, self.port, self.handle)
        self.run()

    async def stop(self) -> None:
        """Stop the agent, its listener and its client."""
        self.kill()
        if self._server is not None:
            await self._server.stop()
            await self.client.close()
            self._server = None

    def run(self) -> None:
        """Run the agent's life cycle as a task."""
        self.spawn(self._run_life_cycle())

    # Client of the service

    async def _run_life_cycle(self) -> None:
        machine = self.machine
        try:
            node_uuid = await self._inspect() if self.inspection_url else None
            machine.agent = "looking up"
            uuid, heartbeat_timeout = await self._lookup(node_uuid)
            self.serving = True
            machine.agent = "idle"
            await self._send_heartbeats(uuid, heartbeat_timeout)
        except Fatal as error:
            machine.record("machine", f"the agent gives up: {error}")
            self.lose(str(error))

    async def _inspect(self) -> str | None:
        """Post the inventory. Returns the node's UUID if the service sent one."""
        machine = self.machine
        machine.agent = "inspecting"
        report = inventory(machine, self.macs)
        for _ in range(5):
            status, answer = await self._call("POST", self.inspection_url or "", body=report)
            if status == 202:
                node_uuid = answer.get("uuid") or (answer.get("node") or {}).get("uuid")
                return str(node_uuid) if node_uuid else None
            if status is not None and status < 500 and status != 409:
                break
            await self._sleep(5, 30)
        machine.record("machine", "inspection was not accepted", status)
        return None

    async def _lookup(self, node_uuid: str | None) -> tuple[str, float]:
        """
        Look the node up and accept its token. Returns (node UUID, heartbeat timeout in seconds).

        Raises Fatal: the lookup timed out, or another agent has the token.
        """
        query = {"addresses": ",".join(self.macs)} | ({"node_uuid": node_uuid} if node_uuid else {})
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LOOKUP_TIMEOUT
        conflicts = iter(CONFLICT_WAITS)
        attempts = 0
        while loop.time() < deadline:
            await self._discover()
            status, answer = await self._call("GET", "/v1/lookup", query=query, at_most=(1, 62))
            config = answer.get("config") or {}
            uuid = (answer.get("node") or {}).get("uuid")
            if status == 200 and uuid and "heartbeat_timeout" in config:
                self._accept_token(config.get("agent_token"))
                return uuid, float(config["heartbeat_timeout"])
            if status == 409 and (wait := next(conflicts, None)):
                await self._sleep(wait, wait)
            attempts += 1
            await self._sleep(1, min(2.0**attempts, 60))
        raise Fatal("lookup timed out")

    def _accept_token(self, token: str | None) -> None:
        """Store the token of a lookup. Raises Fatal if the service hides it from this agent."""
        if token == HIDDEN:
            if self.token is None:
                raise Fatal("locked down: the token was given to another agent")
        elif token and len(token) >= TOKEN_LENGTH:
            self.token = token

    async def _send_heartbeats(self, uuid: str, heartbeat_timeout: float) -> None:
        """
        Send heartbeats forever: well within the timeout (seconds), or sooner when a command ends.
        """
        loop = asyncio.get_running_loop()
        machine = self.machine
        while True:
            self._wake.clear()
            is_accepted = machine.faults.heartbeats_stop or await self._heartbeat(uuid)
            sent_at = loop.time()
            if is_accepted:
                pause = heartbeat_timeout * machine.random.uniform(0.3, 0.6)
            else:
                pause = machine.random.uniform(5, 10) * machine.faults.retry_factor
            try:
                await asyncio.wait_for(self._wake.wait(), pause)
            except TimeoutError:
                continue
            await asyncio.sleep(sent_at + machine.faults.heartbeat_gap - loop.time())

    async def _heartbeat(self, uuid: str) -> bool:
        body: dict[str, Any] = {"callback_url": f"http://{self.address}:{self.port}"}
        await self._discover()
        version = self._service_version or (1, 31)
        if self.token:
            body["agent_token"] = self.token
        if version >= (1, 36):
            body["agent_version"] = VERSION
        status, _ = await self._call("POST", f"/v1/heartbeat/{uuid}", body=body, at_most=(1, 68))
        self.heartbeats += status == 202
        return status == 202

    async def _discover(self) -> None:
        """Read the service's API version, once."""
        if self._service_version is None:
            _, answer = await self._call("GET", "/")
            try:
                major, _, minor = answer["default_version"]["version"].partition(".")
                self._service_version = int(major), int(minor)
            except (KeyError, TypeError, ValueError):
                return

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        at_most: tuple[int, int] | None = None,
    ) -> tuple[int | None, dict[str, Any]]:
        """
        Send a request to the service; return (status, JSON object). The status is None without an
        answer.

        at_most: highest API version that the agent knows.
        """
        headers = {"Accept": "application/json", "User-Agent": "python-requests/2.32.5"}
        # by the header of a proxy in front of them, the service knows agents on its own host
        headers["X-Forwarded-For"] = self.address
        if at_most:
            major, minor = min(self._service_version or (1, 31), at_most)
            headers["X-OpenStack-Ironic-API-Version"] = f"{major}.{minor}"
        for url in list(self.api_urls):
            try:
                async with self.client.request(
                    method,
                    path if "://" in path else url + path,
                    params=query,
                    json=body,
                    headers=headers,
                    ssl=not self.insecure,
                    timeout=aiohttp.ClientTimeout(total=30),
                ) as answer:
                    text = await answer.read()
                    try:
                        document = Request("", "", "", {}, text).json()
                    except BadJson:
                        document = {}
                    return answer.status, document
            except (aiohttp.ClientError, TimeoutError, OSError):
                self.api_urls.append(self.api_urls.pop(0))
        return None, {}

    async def _sleep(self, low: float, high: float) -> None:
        machine = self.machine
        await asyncio.sleep(machine.random.uniform(low, high) * machine.faults.retry_factor)

    # The agent's own API

    def handle(self, request: Request) -> Response | Awaitable[Response]:  # noqa: C901 - one branch per route
        """
        Answer a request to the agent's API. The connection is cut until the lookup has succeeded.
        """
        if not self.serving:
            return CUT
        path = request.path.removeprefix("/v1")
        if path in ("", "/") or path == "/status":
            return self._describe_api(request, path)
        if path == "/commands":
            location = f"{request.path}/" + (f"?{request.query}" if request.query else "")
            return Response(308, headers={"Location": location})
        if not path.startswith("/commands/"):
            return _fault(404, "404 Not Found")
        args = request.args()
        offered = args.get("agent_token", "")
        if self.token is None or not hmac.compare_digest(self.token.encode(), offered.encode()):
            return _fault(401, "401 Unauthorized: Token invalid.")
        command_id = path.removeprefix("/commands/").rstrip("/")
        if request.method == "POST" and not command_id:
            return self._run_command(request, wait=args.get("wait", "false").lower() == "true")
        if request.method != "GET":
            return _fault(405, "405 Method Not Allowed")
        if not command_id:
            return json({"commands": [command.document() for command in self.commands]})
        for command in self.commands:
            if command.id == command_id:
                return json(command.document())
        return _fault(404, f"404 Not Found: Command with id {command_id} not found.")

    def _describe_api(self, request: Request, path: str) -> Response:
        if path == "/status":
            return json({"started_at": None, "version": VERSION})
        link = {"href": f"http://{self.address}:{self.port}/v1/", "rel": "self"}
        version = {"id": "v1", "links": [link]}
        if request.path.startswith("/v1"):
            return json({**version, "commands": [{**link, "href": link["href"] + "commands/"}]})
        return json(
            {"name": "OpenStack Ironic Python Agent API", "versions": [version]}
            | {"default_version": version}
        )

    async def _run_command(self, request: Request, *, wait: bool) -> Response:
        try:
            body = request.json()
        except BadJson:
            body = {}
        name, params = body.get("name"), body.get("params")
        if not isinstance(name, str) or not isinstance(params, dict) or "." not in name:
            return _fault(400, "400 Bad Request: Missing or invalid name or params")
        extension, _, verb = name.partition(".")
        lacks = self.machine.faults.lacks
        if extension not in COMMANDS or extension in lacks:
            return _fault(404, f"404 Not Found: Extension {extension} not found")
        entry = COMMANDS[extension].get(verb)
        if entry is None or name in lacks:
            return _fault(400, f"Invalid command: Unknown command: {verb}")
        if self.commands and self.commands[-1].status == "RUNNING":
            return _fault(409, f"Agent is busy: executing {self.commands[-1].name}")
        command = Command(verb)
        self.commands.append(command)
        task = self.spawn(self._execute(command, entry, params))
        if wait or not entry.background:
            await asyncio.shield(task)
        return json(command.document())

    async def _execute(self, command: Command, entry: Entry, params: Mapping[str, Any]) -> None:
        machine = self.machine
        step = params.get("step") or {}
        label = (
            f"{command.name} {step.get('interface')}.{step.get('step')}" if step else command.name
        )
        entry_fields = {"command": command.id, "step": step}
        machine.record("agent", label, step.get("args"), **entry_fields)
        machine.agent = f"busy: {label}"
        try:
            command.result = await entry.run(self, params)
            command.status = "SUCCEEDED"
        except Failed as failure:
            command.status, command.error = failure.status, failure.document
        except (KeyError, TypeError, AttributeError) as error:  # parameters of the wrong shape
            command.status = "FAILED"
            command.error = Failed(f"invalid parameters: {error!r}").document
        machine.record(
            "agent", f"finished {label}", command.error or command.status, **entry_fields
        )
        machine.agent = "idle"
        if entry.background:
            self._wake.set()


def _fault(status: int, text: str) -> Response:
    return json({"faultcode": "Client" if status < 500 else "Server", "faultstring": text}, status)
