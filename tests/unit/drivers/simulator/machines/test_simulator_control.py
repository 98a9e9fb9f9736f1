"""Media, faults and the control of the simulator."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest
import requests
import sushy

from drivers.simulator import media
from drivers.simulator.fault_settings import BadFault
from drivers.simulator.faults import Faults
from drivers.simulator.simulator import Simulator
from tests.support.fleet import until

from .conftest import connect, what


def test_parameters_are_found_anywhere_in_an_image(sim, tmp_path):
    line = b" ipa-api-url=http://192.0.2.1:6385/ ipa-insecure=1\n"
    for offset in (0, media.CHUNK - 10, media.CHUNK - len(line) + 2, 2 * media.CHUNK):
        image = tmp_path / "image"
        image.write_bytes(bytes(offset) + line)
        parameters = asyncio.run(media.scan(None, image.as_uri()))
        assert {"ipa-api-url": "http://192.0.2.1:6385/", "ipa-insecure": "1"} == parameters


def test_faults_are_set_over_http_and_a_bad_one_is_named(sim):
    faults = f"{sim.url}/sim/machines/2/faults"
    response = requests.post(faults, json={"latency": 0.01, "step_fails": {"x": "y"}}, timeout=60)
    assert 0.01 == response.json()["latency"] == sim.machines[2].faults.latency
    assert 0.0 == sim.machines[1].faults.latency
    requests.post(f"{sim.url}/sim/faults", json={"latency": 0.02, "drop_rate": 0.5}, timeout=60)
    assert [0.02, 0.02, 0.01] == [machine.faults.latency for machine in sim.machines]
    requests.post(faults, json={"latency": None}, timeout=60)
    assert 0.02 == sim.machines[2].faults.latency
    for bad in ({"latencyy": 1}, {"drop_rate": 2}, {"bmc_dead": "yes"}, {"step_fails": 3}):
        refused = requests.post(faults, json=bad, timeout=60)
        assert 400 == refused.status_code
        assert next(iter(bad)) in refused.json()["error"]
    assert 400 == requests.post(faults, data="{", timeout=60).status_code
    with pytest.raises(BadFault, match="no_such"):
        Simulator(machines=1, no_such=1)


def test_the_control_endpoint_shows_machines_and_their_logs(sim):
    machine = sim.machines[2]
    connect(machine).get_system().reset_system(sushy.ResetType.ON)
    listed = requests.get(f"{sim.url}/sim/machines", timeout=60).json()
    assert [simulated_machine.uuid for simulated_machine in sim.machines] == [
        entry["uuid"] for entry in listed
    ]
    assert ["Off", "Off", "On"] == [entry["power"] for entry in listed]
    log = requests.get(f"{sim.url}/sim/machines/2/log", timeout=60).json()
    assert ("redfish", "power on", "On") == tuple(log[0][key] for key in ("kind", "what", "detail"))
    requests.post(f"{sim.url}/sim/machines/2/power", json={"state": "off"}, timeout=60)
    until(lambda: machine.power == "Off")
    assert ["power on"] == what(machine, "redfish")
    assert 404 == requests.get(f"{sim.url}/sim/machines/3", timeout=60).status_code


def test_the_control_endpoint_knows_every_password_of_a_bmc(sim):
    machine = sim.machines[2]
    account = f"{sim.url}/sim/machines/2/account"
    connect(machine).get_system()
    machine.password = "first"
    requests.get(
        f"{machine.redfish_address}{machine.system_id}", auth=("admin", "basic"), timeout=60
    )
    sessions = f"{machine.redfish_address}/redfish/v1/SessionService/Sessions"
    for login in ({"UserName": "admin", "Password": "login"}, {"UserName": "admin"}):
        assert 401 == requests.post(sessions, json=login, timeout=60).status_code
    token = {"X-Auth-Token": _token(sessions, "first")}
    user = f"{machine.redfish_address}/redfish/v1/AccountService/Accounts/2"
    for password in ("short", "long-enough"):
        requests.patch(user, json={"Password": password}, headers=token, timeout=60)
    set_by_hand = requests.post(account, json={"password": "by hand"}, timeout=60).json()
    assert set_by_hand == requests.get(account, timeout=60).json()
    assert machine.password == set_by_hand["password"] == "by hand"
    assert {"admin", "basic", "login", "first", "short", "long-enough", "by hand"} == {
        *set_by_hand["seen_passwords"]
    }
    assert {} == machine.sessions
    for bad in ({}, {"password": ""}, {"password": 7}):
        assert 400 == requests.post(account, json=bad, timeout=60).status_code
    assert "by hand" == machine.password


def _token(sessions, password):
    login = {"UserName": "admin", "Password": password}
    return requests.post(sessions, json=login, timeout=60).headers["X-Auth-Token"]


@pytest.mark.parametrize(("hidden", "status"), [(False, 403), (True, 401)])
def test_a_locked_user_is_refused_until_the_end_openly_or_not(sim, hidden, status):
    machine = sim.machines[0]
    sim.set_faults(0, lockout_after=2, lockout_hidden=hidden)
    sessions = f"{machine.redfish_address}/redfish/v1/SessionService/Sessions"

    def log_in(password):
        login = {"UserName": "admin", "Password": password}
        return requests.post(sessions, json=login, timeout=60).status_code

    assert [401, 401, status] == [log_in("wrong"), log_in("wrong"), log_in("admin")]
    assert (1, 0) == (machine.lockouts, machine.wrong_logins)
    machine.locked_until = 0.0
    assert 201 == log_in("admin")


def test_the_defaults_of_a_fault_are_those_of_the_real_agent():
    assert (5.0, 1.0) == (Faults().heartbeat_gap, Faults().retry_factor)


def test_the_program_reports_when_it_is_ready_and_stops_on_sigterm(tmp_path):
    ready = tmp_path / "ready.json"
    command = [sys.executable, "-m", "drivers.simulator", "--machines", "2"]
    faults = tmp_path / "faults.toml"
    faults.write_text("[all]\nlatency = 0.5\n[machines.1]\npages = { size = 7 }\n")
    command += ["--ready-file", str(ready), "--set", "latency=0.01", "--faults", str(faults)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        try:
            printed = json.loads(program.stdout.readline())
            assert printed == json.loads(ready.read_text())
            assert 2 == len(printed["machines"])
            answer = requests.get(f"{printed['url']}/sim/faults", timeout=60).json()
            assert (0.01, False) == (answer["latency"], "pages" in answer)
            answer = requests.get(f"{printed['url']}/sim/machines/1/faults", timeout=60).json()
            assert (0.01, 7) == (answer["latency"], answer["pages"]["size"])
        finally:
            program.send_signal(signal.SIGTERM)
        assert 0 == program.wait(60)


def test_the_program_refuses_a_wrong_file_of_faults(tmp_path):
    faults = tmp_path / "faults.toml"
    faults.write_text("[all]\nbusyness = 1\n")
    command = [sys.executable, "-m", "drivers.simulator", "--faults", str(faults)]
    program = subprocess.run(command, check=False, capture_output=True, text=True)
    assert 1 == program.returncode
    assert program.stderr.startswith(f"{faults}: [all] unknown fault 'busyness'; known: ")
    assert "Traceback" not in program.stderr
