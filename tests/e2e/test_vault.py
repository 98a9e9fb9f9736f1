"""Passwords of BMCs in a vault, through the whole service: outages, killed processes, no traces."""

import sqlite3

import pytest

from drivers.simulator.simulator import running as simulator
from tests.support.fleet import CALM, Fleet, until
from tests.support.vault_server import Role, VaultServer, running

PASSWORD = "Bmc-s3cret-77"
CONDUCTOR = {
    "secret/data/ingot/": frozenset({"create", "read"}),
    "secret/metadata/ingot/": frozenset({"delete"}),
}


@pytest.fixture
def machine():
    with simulator(machines=1) as bmcs:
        bmcs.machines[0].password = PASSWORD
        yield bmcs.machines[0]


@pytest.fixture
def server():
    """A vault whose conductors log in by tokens of two seconds."""
    with running(VaultServer()) as vault:
        vault.roles["auth/approle", "ingot"] = Role(CONDUCTOR, "s1", ttl=2)
        yield vault


def settings(server, **variables):
    return {
        **CALM,
        "INGOT_VAULT_ADDRESS": server.address,
        "INGOT_VAULT_ROLE_ID": "ingot",
        "INGOT_VAULT_SECRET_ID": "s1",
        "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "86400",
        **variables,
    }


def dump(fleet):
    """Return the database as SQL."""
    with sqlite3.connect(f"file:{fleet.data / 'ingot.db'}?mode=ro", uri=True) as connection:
        return "\n".join(connection.iterdump())


def power(fleet, node, target):
    path = f"{fleet.url}/v1/nodes/{node}/states/power"
    answer = fleet.http.put(path, json={"target": target}, timeout=30)
    assert 202 == answer.status_code, answer.text


def power_state(fleet, node):
    return fleet.get(f"nodes/{node}")["power_state"]


def rotate(fleet, node):
    path = f"{fleet.url}/v1/nodes/{node}/states/provision"
    step = {"interface": "management", "step": "rotate_bmc_password"}
    body = {"target": "clean", "clean_steps": [step], "disable_ramdisk": True}
    answer = fleet.http.put(path, json=body, timeout=30)
    assert 202 == answer.status_code, answer.text


def enroll(fleet, machine):
    """Create the manageable node n1; return the text of the answer to its creation."""
    info = {**machine.driver_info(), "redfish_password": PASSWORD}
    body = {"name": "n1", "driver": "redfish", "driver_info": info}
    answer = fleet.http.post(f"{fleet.url}/v1/nodes", json=body, timeout=30)
    assert 201 == answer.status_code, answer.text
    fleet.provision(["n1"], "manage")
    until(lambda: fleet.get("nodes/n1")["provision_state"] == "manageable", "the node")
    return answer.text


def test_machines_are_driven_by_passwords_of_a_vault(tmp_path, machine, server):
    with Fleet(tmp_path, conductors=1, **settings(server)) as fleet:
        assert PASSWORD not in enroll(fleet, machine)
        assert [PASSWORD] == [content["value"] for content in server.contents().values()]
        power(fleet, "n1", "power on")
        until(lambda: power_state(fleet, "n1") == "power on", "power on")
        server.sealed = True  # not noticed: the conductor remembers
        power(fleet, "n1", "power off")
        until(lambda: power_state(fleet, "n1") == "power off", "power off")
        texts = [dump(fleet), fleet.text()]
    with Fleet(tmp_path, conductors=1, **settings(server)) as fleet:  # remembers nothing
        power(fleet, "n1", "power on")
        until(lambda: "vault" in str(fleet.get("nodes/n1/why")), "the reason of the wait")
        assert "power off" == power_state(fleet, "n1")
        server.sealed = False
        until(lambda: power_state(fleet, "n1") == "power on", "the end of the outage")
        assert not fleet.get("nodes/n1")["maintenance"]
        texts += [dump(fleet), fleet.text()]
    assert 0 == machine.wrong_logins
    assert not any(PASSWORD in text for text in texts)


def test_a_rotation_in_a_vault_survives_killed_conductors(tmp_path, machine, server):
    points = ("claimed", "vault_noted", "vault_stored", "acted", "freed", "recorded")
    (tmp_path / "once").mkdir()
    kills = ",".join(f"{point}=die-{tmp_path}/once/{point}" for point in points)
    with Fleet(tmp_path, conductors=1, **settings(server)) as fleet:
        enroll(fleet, machine)
    environ = settings(server, INGOT_KILL_POINTS=kills, INGOT_CONDUCTOR_MAX_STEP_DEATHS="20")
    with Fleet(tmp_path, conductors=1, restart=True, **environ) as fleet:
        rotate(fleet, "n1")
        until(lambda: machine.password != PASSWORD, "the new password", 120)
        until(lambda: fleet.get("nodes/n1")["provision_state"] == "manageable", "the node", 120)
        text = dump(fleet) + fleet.text()
        assert {*points} == {path.name for path in (tmp_path / "once").iterdir()}
        power(fleet, "n1", "power on")
        until(lambda: power_state(fleet, "n1") == "power on", "power on", 60)
    assert machine.password in [content["value"] for content in server.contents().values()]
    assert PASSWORD not in text
    assert machine.password not in text
