"""
A machine behind an independent BMC: sushy-tools' emulator. When the emulator switches the machine on
with the agent's medium inserted, an agent that speaks ironic-python-agent's protocol runs on it.
"""

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import requests

from drivers.simulator.agent import Agent
from tests.support.ports import free_port
from tests.support.web import Handler, serving

UUID = "8d6f1a5e-7f3b-4a53-9a1e-0d2f5c6b7a80"
MAC = "52:54:00:8d:6f:1a"
IMAGE = b"the bytes of an operating system\n" * 4096


class Machine:
    """The machine: it follows the power state that the emulator reports."""

    def __init__(self):
        self.api_url = None
        self.bmc_url = None
        self._power_states = []  # as reported by the BMC, in order
        self.agent = None  # the running one
        self.medium = None  # URL of the medium that the agent was booted from
        self.files = {"/disk.raw": IMAGE, "/agent.iso": b"agent medium"}  # path -> content
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        outer = self

        class Served(Handler):
            def do_PUT(self):
                outer.changed(self.body())
                self.answer(200)

            def do_GET(self):
                content = outer.files.get(self.path)
                if content is None:
                    self.send_error(404)
                    return
                with suppress(ConnectionError):  # a client may close after the first bytes
                    self.answer(200, content)

            do_HEAD = do_GET

            def do_POST(self):
                self.send_error(404)

        self._open = ExitStack()
        self.url = self._open.enter_context(serving(Served)).url

    @property
    def image_info(self):
        return {
            "image_source": f"{self.url}/disk.raw",
            "image_os_hash_algo": "sha256",
            "image_os_hash_value": hashlib.sha256(IMAGE).hexdigest(),
        }

    def changed(self, system):
        power = system["power_state"]
        if self._power_states and self._power_states[-1] == power:
            return
        self._power_states.append(power)
        from_cd = system.get("boot_device") == "Cd" and (system.get("boot_image") or {}).get("Cd")
        if power == "On" and from_cd:
            self.medium = str(from_cd)
            self._run(self._boot())
        elif power == "Off" and self.agent is not None:
            self._run(self._halt())

    def stop(self):
        if self.agent is not None:
            self._run(self._halt())
        self._open.close()
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self, work):
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _boot(self):
        self.agent = Agent(self.api_url, [MAC], "127.0.0.1", 0, on_power=self._ordered)
        machine = self.agent.machine
        machine.faults = replace(
            machine.faults, heartbeat_gap=0.5, retry_factor=0.05, step_seconds=0.3
        )
        await self.agent.start()

    async def _halt(self):
        agent, self.agent = self.agent, None
        await agent.stop()

    def _ordered(self, _kind):
        """The agent switches its machine off, through the BMC."""
        reset = f"{self.bmc_url}/redfish/v1/Systems/{UUID}/Actions/ComputerSystem.Reset"
        threading.Thread(
            target=requests.post,
            args=(reset,),
            kwargs={"json": {"ResetType": "ForceOff"}, "timeout": 10},
        ).start()


@contextmanager
def running(folder: Path, machine=None, settings=""):
    """Run a machine behind its BMC; stop both at the end. settings: more lines for the emulator."""
    machine = machine or Machine()
    port = free_port()
    config = folder / "emulator.py"
    config.write_text(
        # the emulator waits for a random time of 1 to 11 seconds per switch: here always 1
        "import random\nrandom.randint = min\n"
        f"SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\n"
        f"SUSHY_EMULATOR_LISTEN_PORT = {port}\n"
        f"SUSHY_EMULATOR_FAKE_DRIVER = True\n"
        f"SUSHY_EMULATOR_STATE_DIR = {str(folder)!r}\n"
        f"EXTERNAL_NOTIFICATION_URL = {machine.url!r}\n"
        f"SUSHY_EMULATOR_FAKE_SYSTEMS = [{{'uuid': {UUID!r}, 'name': 'e2e', 'power_state': 'Off',"
        f" 'external_notifier': True, 'nics': [{{'mac': {MAC!r}, 'ip': '127.0.0.1'}}]}}]\n{settings}"
    )
    program = shutil.which("sushy-emulator", path=str(Path(sys.executable).parent))
    with open(folder / "emulator.log", "wb") as log:
        emulator = subprocess.Popen(
            [program, "--config", str(config)],
            stdout=log,
            stderr=log,
            env={**os.environ, "TMPDIR": str(folder)},
        )
    try:
        machine.bmc_url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                requests.get(f"{machine.bmc_url}/redfish/v1/", timeout=2)
                break
            except requests.ConnectionError:
                threading.Event().wait(0.1)
        yield machine
    finally:
        emulator.terminate()
        emulator.wait(10)
        machine.stop()
