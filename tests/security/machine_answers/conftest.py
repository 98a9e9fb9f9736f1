"""Readers of agents and of BMCs, and machines for them."""

import asyncio
import gzip
from dataclasses import replace
from types import SimpleNamespace

import aiohttp
import pytest

from app.config.settings import Settings
from drivers.agent import in_band
from drivers.core.bmc import Bmcs
from drivers.core.errors import HardwareError, Unreachable
from drivers.core.target import Agent
from tests.security.hostile import recording
from tests.support.loopback import OTHERS_DENIED
from tests.unit.drivers.documents import sweep_of
from tests.unit.drivers.machines import OPTIONS, TOKEN, new_registry, target
from workers.conductor.poller import WaitMonitor

JSON = "application/json"
#: 64 MiB as 64 KiB of gzip.
BOMB = gzip.compress(b'{"commands": [' + b"0, " * (64 << 20 >> 2) + b"0]}")


def options(seconds=5.0):
    changes = {
        "agent": {"command_timeout": seconds, "max_command_attempts": 1},
        "redfish": {"connect_timeout": seconds, "read_timeout": seconds},
    }
    return {group: {**values, **changes.get(group, {})} for group, values in OPTIONS.items()}


def node(url, seconds=5.0, interfaces=(), **fields):
    """A machine whose agent and whose BMC are the same hostile server."""
    return target(
        "redfish",
        {"deploy": "direct", **dict(interfaces)},
        registry=new_registry(Bmcs(trip_after=10_000)),
        driver_info={
            "redfish_address": url, "redfish_username": "admin", "redfish_password": "BMC-PW",
            "redfish_auth_type": "basic", "redfish_system_id": "/redfish/v1/Systems/1",
        },
        agent=Agent(url, TOKEN, None, "9.0.0", {}, {"manager": "1"}),
        options=options(seconds),
        **fields,
    )  # fmt: skip


def polled(url, seconds=5.0):
    """Read an agent's commands as the wait monitor does."""

    async def run():
        base = Settings()
        agent = replace(base.agent, denied_networks=OTHERS_DENIED)
        monitor = WaitMonitor(SimpleNamespace(settings=replace(base, agent=agent)))
        monitor._http = None
        try:
            async with asyncio.timeout(seconds * 3):
                document = await monitor._commands(url, TOKEN, trusted=False)
            return in_band.command_ended(document)
        finally:
            if monitor._http:
                await monitor._http.close()
            monitor._threads.shutdown()
            monitor._loop.close()

    try:
        return asyncio.run(run())
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unreachable(type(error).__name__) from None


def swept(url, seconds=5.0):
    """Read a power state as the power sync does."""
    state = sweep_of(node(url, seconds))
    if isinstance(state, HardwareError):
        raise state
    return state


def power_of(url, seconds=5.0):
    """Read a power state as a step does, by sushy."""
    it = node(url, seconds)
    return it.driver.power.get_power_state(it)


COMMAND = {
    "id": "c1", "command_name": "execute_clean_step", "command_status": "SUCCEEDED",
    "command_error": None, "command_params": {},
    "command_result": {
        "clean_result": {"a": 1}, "clean_step": {"interface": "deploy", "step": "erase_devices"},
        "clean_steps": {"M": [{"interface": "deploy", "step": "s", "priority": 50, "argsinfo": {
            "x": {"description": "d", "required": True}}}]},
        "deploy_steps": {"M": [{"interface": "deploy", "step": "s", "priority": 50}]},
        "service_steps": {}, "hardware_manager_version": {"M": "1"},
        "system_logs": "QUJD", "inventory": {"interfaces": []},
    },
}  # fmt: skip
#: Answer of a BMC to each path: the service root, the collection and the system in one.
SYSTEM = {
    "@odata.id": "/redfish/v1/Systems/1", "Id": "1", "UUID": "1", "RedfishVersion": "1.6.0",
    "Systems": {"@odata.id": "/redfish/v1/Systems"}, "Members": [{"@odata.id": "/redfish/v1/Systems/1"}],
    "Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}},
    "PowerState": "On", "Status": {"State": "Enabled", "Health": "OK"},
    "Boot": {"BootSourceOverrideTarget": "None"}, "SecureBoot": {"@odata.id": "/redfish/v1/S"},
    "SecureBootEnable": True,
}  # fmt: skip


def paths(document, at=()):
    yield at
    if isinstance(document, dict | list):
        pairs = document.items() if isinstance(document, dict) else enumerate(document)
        for name, member in pairs:
            yield from paths(member, (*at, name))


@pytest.fixture(scope="module")
def hostile():
    with recording(None) as server:
        yield server
