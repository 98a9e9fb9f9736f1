"""
Bulk reads of many BMCs, and of power states for the power sync; health and boot mode come from the
same answers. `drivers.redfish.sensor_sweep` reads sensors in the same way.

It uses aiohttp: sushy needs a thread per BMC, and several times the CPU time for the single GET per
machine. Requests hold the BMC's turn, and use the token of a kept session while it is valid.
"""

import asyncio
import math
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from drivers.core.bmc import Urgency
from drivers.core.errors import (
    Busy,
    HardwareError,
    InvalidDriverInfo,
    Refused,
    Unexpected,
)
from drivers.core.kinds.power import ReadPower
from drivers.core.password_rotation import require_settled
from drivers.core.target import Options, Target
from drivers.net import answers, tls
from drivers.net.connections import AsyncResponse, async_connector
from drivers.net.networks import Reach, of_bmcs
from drivers.redfish.inventory import BOOT_MODES
from drivers.redfish.transport import access, bodies, client
from drivers.redfish.transport.conversions import entry, ironic_power_state, link_path
from drivers.redfish.transport.errors import errors_of, is_busy
from drivers.redfish.transport.http_rules import Answer, Failure, Request, conversation, received
from drivers.redfish.transport.messages import messages
from drivers.redfish.transport.peer import Peer

HEALTHS = ("OK", "Warning", "Critical")

#: Power state, or the error of the read; None while the machine is in transition.
ReportedState = str | HardwareError | None


@asynccontextmanager
async def power_state_reader(
    reach: Reach,
    connections: int = 128,
    timeout: float = 10.0,  # noqa: ASYNC109 - of each request, not of the whole
) -> AsyncIterator[ReadPower]:
    """
    Yield a function that reads the power state of a target, or returns the error; see `Shown`.

    Its option `secure_boot=True` also reads secure boot, by a second request.

    reach: networks of BMCs. connections: most at a time. timeout: seconds for a request, and for
    the wait for a BMC's turn.
    """

    async def ask(target: Target, *, secure_boot: bool = False) -> ReportedState:
        return await _state(http, target, max_wait=timeout, secure_boot=secure_boot)

    async with http_client(reach, connections, timeout) as http:
        yield ask


def http_client(reach: Reach, connections: int, timeout: float) -> aiohttp.ClientSession:
    """Return a client for BMCs in some networks. timeout: seconds for a request."""
    return aiohttp.ClientSession(
        connector=async_connector(reach.check, limit=connections, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=timeout),
        headers={"Accept": "application/json", "OData-Version": "4.0", **answers.UNCOMPRESSED},
        auto_decompress=False,
        response_class=AsyncResponse,
    )


def open_reader(options: Options, connections: int) -> AbstractAsyncContextManager[ReadPower]:
    """Open the reader of the power sync, as `Power.sweep_reader` describes."""
    reach = of_bmcs(options, "redfish_address")
    return power_state_reader(reach, connections, options["redfish"]["sync_timeout"])


async def _state(
    http: aiohttp.ClientSession, target: Target, *, max_wait: float, secure_boot: bool
) -> ReportedState:
    try:
        require_settled(target, access.PASSWORD)
        bmc_access = access.access(target)
        bmcs = target.driver.power.bmcs
        async with bmcs.async_turn(bmc_access.key, Urgency.SYNC, max_wait=max_wait) as bmc:
            with errors_of(bmc_access):
                connection = client.connection(bmc, bmc_access)
                document = await system(http, connection)
                if secure_boot:
                    await _report_secure_boot(http, connection, document, target)
        target.report(health=_health(document))
        mode = entry(document, "Boot", "BootSourceOverrideMode")
        if mode in tuple(BOOT_MODES):
            target.report(boot_mode=BOOT_MODES[mode])
        return ironic_power_state(document.get("PowerState"))
    except HardwareError as error:
        return error


def _health(document: dict[str, Any]) -> str | None:
    """Return the health of a system; None if it is missing, or unknown to Ironic."""
    health = entry(document, "Status", "Health")
    return health if health in HEALTHS else None


async def _report_secure_boot(
    http: aiohttp.ClientSession,
    connection: client.Connection,
    system: dict[str, Any],
    target: Target,
) -> None:
    """Read and report SecureBootEnable, if the system has it."""
    path = link_path(system, "SecureBoot")
    if path is None:
        return
    with suppress(Refused, Unexpected):
        enabled = (await read(http, connection, path)).get("SecureBootEnable")
        if isinstance(enabled, bool):
            target.report(secure_boot=enabled)


async def system(http: aiohttp.ClientSession, connection: client.Connection) -> dict[str, Any]:
    """
    Read the document of the node's system. Use inside the BMC's turn only.

    Raises HardwareError.
    """
    if connection.path is None:
        connection.path = await _only_system(http, connection)
    document = await read(http, connection, connection.path)
    if not document:
        raise Unexpected(f"BMC {connection.access.address} sent no document of its system")
    return document


async def _only_system(http: aiohttp.ClientSession, connection: client.Connection) -> str:
    """Return the path of the only system, as orders have it."""
    document = await read(http, connection, f"{connection.access.root}Systems")
    paths = [entry(member, "@odata.id") for member in entry(document, "Members") or ()]
    match paths:
        case [str(path)]:
            return path
    # sushy leaves out systems that cannot be read
    resource = await asyncio.to_thread(connection.system, fresh=False)
    return str(resource.path)


async def read(
    http: aiohttp.ClientSession, connection: client.Connection, path: str
) -> dict[str, Any]:
    """
    Read a resource; log in again once if the BMC has ended the session.

    Use inside the BMC's turn only. Raises HardwareError.
    """
    peer = Peer(connection.access.address)
    if not path.startswith("/") and "://" not in path:
        raise Unexpected(f"{peer.name} sent a link that is no path: {path[:200]!r}")
    for may_retry in (True, False):
        headers = await _credentials(connection)
        answer, document = await _exchanged(
            http, connection, Request("GET", peer.url(path)), headers
        )
        if answer.status == 401 and may_retry and "X-Auth-Token" in headers:
            connection.close()
            continue
        if answer.status in (401, 403):
            raise connection.access.login_refused(answer.status)
        if answer.status >= 400:
            raise _refusal(connection.access, path, answer)
        return bodies.document(peer.name, answer.body) if document is None else document
    raise AssertionError("unreachable: the second round returns or raises")


def _refusal(bmc: access.Access, path: str, answer: Answer) -> HardwareError:
    """Return the error of an answer with an error status."""
    name = f"BMC {bmc.address}"
    error = bodies.error_of(name, answer.status, answer.reason, answer.body)
    words = bmc.mask(f"refused GET {path}: {answer.status}: {error['message']}")
    if is_busy(answer.status, messages({"error": error})):
        return Busy(f"{name} {words}")
    return (Refused if answer.status < 500 else Unexpected)(f"{name} {words}")


async def _exchanged(
    http: aiohttp.ClientSession,
    connection: client.Connection,
    request: Request,
    headers: dict[str, str],
) -> tuple[Answer, Any]:
    """Carry out a read by the rules, within the timeout of a request."""
    peer = Peer(connection.access.address)
    deadline = time.monotonic() + (http.timeout.total or math.inf)
    talk = conversation(peer, request, deadline)
    step, timeout = next(talk), http.timeout
    try:
        while True:
            try:
                answer = await _delivered(http, connection, step, headers, timeout)
            except Failure as failure:
                step = talk.throw(failure)
            else:
                step = talk.send(answer)
            timeout = aiohttp.ClientTimeout(total=max(deadline - time.monotonic(), 0.001))
    except StopIteration as end:
        result: tuple[Answer, Any] = end.value
        return result


async def _delivered(
    http: aiohttp.ClientSession,
    connection: client.Connection,
    step: Request,
    headers: dict[str, str],
    timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - of aiohttp
) -> Answer:
    """
    Send a request of the conversation.

    Raises Failure.
    """
    if step.pause:
        await asyncio.sleep(step.pause)
    changes = {name: value for name, value in step.headers.items() if value is not None}
    try:
        async with http.request(
            step.method,
            URL(step.url, encoded=True),
            headers=headers | changes,
            ssl=_tls(connection.access.verify),
            allow_redirects=False,
            timeout=timeout,
        ) as answer:
            body = await answers.async_body_of(answer, answers.LONGEST)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        absent = isinstance(error, aiohttp.ClientConnectorError | TimeoutError)
        raise Failure(
            f"did not answer ({type(error).__name__})", was_sent=True, repeats=0 if absent else 2
        ) from None
    raw = Answer(answer.status, answer.reason or "", answer.headers, body)
    return received(Peer(connection.access.address), step, raw)


async def _credentials(connection: client.Connection) -> dict[str, str]:
    """Return the headers of authentication: the session's token if there is one, else Basic."""
    bmc_access = connection.access
    if bmc_access.username is None:
        return {}
    if connection.token is None and bmc_access.auth == "session":
        await asyncio.to_thread(connection.open)
    if connection.token is not None:
        return {"X-Auth-Token": connection.token}
    login = aiohttp.encode_basic_auth(
        bmc_access.username, bmc_access.password or "", encoding="utf-8"
    )
    return {"Authorization": login}


def _tls(verify: bool | str) -> bool | ssl.SSLContext:
    if isinstance(verify, bool):
        return verify
    try:
        file = Path(verify).stat()
        return _context(verify, file.st_ino, file.st_mtime_ns)
    except OSError as error:
        raise InvalidDriverInfo(f"driver_info/redfish_verify_ca: {error}") from None


@lru_cache(maxsize=64)
def _context(path: str, *_version: int) -> ssl.SSLContext:
    """Load a file of trusted certificates; cached, since that costs more than a request."""
    return ssl.create_default_context(cafile=tls.file(path))
