"""A machine behind IPMI, through the whole service; its power state is read with ipmitool."""

import shutil
import subprocess
import sys
import uuid
from functools import partial

from tests.support import debian
from tests.support.fleet import ROOT, Fleet, until
from tests.support.prerequisites import not_run


def reached(fleet, node, state):
    now = fleet.states("power_state", "target_power_state")[node]
    return (state, None) == now[1:]


def test_power_of_a_machine_behind_ipmi_is_changed_by_the_api(tmp_path):
    ipmitool = debian.provide(lambda: shutil.which("ipmitool"), "ipmitool")
    if ipmitool is None:
        not_run("ipmitool")
    command = [sys.executable, "-m", "drivers.simulator.ipmi", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as bmc:
        try:
            port = bmc.stdout.readline().strip()
            query = [ipmitool, "-I", "lanplus", "-H", "127.0.0.1", "-p", port]
            query += ["-U", "admin", "-P", "password", "power", "status"]
            node = str(uuid.uuid4())
            driver_info = {
                "ipmi_address": "127.0.0.1",
                "ipmi_port": port,
                "ipmi_username": "admin",
                "ipmi_password": "password",
            }
            with Fleet(tmp_path, conductors=1) as fleet:
                body = {"uuid": node, "driver": "ipmi", "driver_info": driver_info}
                assert fleet.http.post(f"{fleet.url}/v1/nodes", json=body, timeout=30).ok
                fleet.provision([node], "manage")
                fleet.await_state([node], "manageable")
                for state in ("power on", "power off"):
                    power = f"{fleet.url}/v1/nodes/{node}/states/power"
                    assert fleet.http.put(power, json={"target": state}, timeout=30).ok
                    until(partial(reached, fleet, node, state), state)
                    process = subprocess.run(query, capture_output=True, text=True, check=True)
                    assert f"Chassis Power is {state.removeprefix('power ')}" in process.stdout
        finally:
            bmc.kill()
