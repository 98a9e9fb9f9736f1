"""Sessions with a switch: netmiko over SSH, the check of its host key, and its queue."""

import threading
from dataclasses import replace

import paramiko
import pytest

from drivers.core.errors import InvalidDriverInfo, LoginRefused, Refused, Unreachable
from drivers.core.steps import Done
from drivers.switch import sessions
from drivers.switch.port_modes import PortMode
from tests.support import switch_cli
from tests.unit.drivers.switch.conftest import SWITCH, Known, run

OPTIONS = {"connect_timeout": 5.0, "command_timeout": 5.0}


@pytest.fixture
def server(device):
    with switch_cli.serving(device) as server:
        yield server


@pytest.fixture
def switch(server):
    return replace(SWITCH, uuid=f"s{server.port}", port=server.port, host_key=server.host_key)


def test_a_machine_is_switched_over_ssh(device, server, switch, machine):
    it = machine(networks=Known(switch), switch_add_all_ports=True)
    it = run(it, "add_cleaning_network")
    assert ["switchport mode access", "switchport access vlan 100"] == device.interfaces["Gi1/0/7"]
    assert ["switchport mode access", "switchport access vlan 100"] == device.interfaces["Gi1/0/8"]
    assert (1, 1) == (server.logins, device.saved)


def test_another_host_key_is_refused_before_the_login(server, switch):
    other = paramiko.ECDSAKey.generate()
    switch = replace(switch, host_key=f"{other.get_name()} {other.get_base64()}")
    with pytest.raises(Refused, match=r"leaf-1 shows another host key than"):
        sessions.run(switch, OPTIONS, lambda session: None)
    assert 0 == server.logins


def test_a_wrong_password_is_named(server, switch):
    with pytest.raises(LoginRefused, match="does not accept user ingot"):
        sessions.run(replace(switch, password="b"), OPTIONS, lambda session: None)


def test_a_switch_that_is_away_is_unreachable(server, switch):
    with pytest.raises(Unreachable, match=r"Switch leaf-1 \(127.0.0.1:1\) did not answer"):
        sessions.run(replace(switch, port=1), OPTIONS, lambda session: None)


def test_a_switch_that_dies_is_unreachable(device, server, switch, machine):
    device.fail_after = 3
    it = machine(networks=Known(switch), switch_command_timeout=2.0)
    with pytest.raises(Unreachable):
        it.driver.network.add_cleaning_network(it)
    device.fail_after = None
    assert isinstance(it.driver.network.run(it, "add_cleaning_network", {}), Done)


def test_a_refused_command_ends_the_order(device, server, switch):
    with pytest.raises(Refused, match="Invalid input"):
        sessions.run(
            switch, OPTIONS, lambda session: session.configure(["interface Gi9/9", "shutdown"])
        )
    assert "shutdown" not in device.commands


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"device_type": "juniper_junos"}, "is none of arista_eos, cisco_ios"),
        ({"private_key": "no key"}, "private_key of switch leaf-1"),
        ({"host_key": "ssh-ed25519 A"}, "host_key of switch leaf-1"),
        ({"host_key": "ssh-nonsense AAAA"}, "host_key of switch leaf-1"),
    ],
)
def test_a_wrong_field_is_named(server, switch, fields, message):
    with pytest.raises(InvalidDriverInfo, match=message):
        sessions.run(replace(switch, **fields), OPTIONS, lambda session: None)


def test_the_missing_extra_is_named(switch, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "netmiko", None)
    with pytest.raises(InvalidDriverInfo, match=r"install ingot\[switch\]"):
        sessions.run(switch, OPTIONS, lambda session: None)


def test_work_that_waits_shares_the_session(direct, device):
    """A second thread queues its work while the first has the session."""
    switch = replace(SWITCH, uuid="queue")
    queue, results = sessions._queue_of("queue"), []

    def first(session):
        thread.start()
        while len(queue._waiting) < 1:
            threading.Event().wait(0.001)
        return 1

    def second():
        results.append(sessions.run(switch, OPTIONS, lambda session: 2))

    thread = threading.Thread(target=second)
    results.append(sessions.run(switch, OPTIONS, first))
    thread.join(10)
    assert [1, 2] == sorted(results)
    assert 1 == direct.opened


def test_the_error_of_work_is_of_its_owner_alone(direct, device):
    switch = replace(SWITCH, uuid="errors")
    with pytest.raises(KeyError):
        sessions.run(switch, OPTIONS, lambda session: {}["absent"])
    assert PortMode() != sessions.run(
        switch, OPTIONS, lambda session: session.dialect.read(session, ["Gi1/0/7"])["Gi1/0/7"]
    )


def test_after_a_lost_session_the_next_one_logs_in_again(direct, device):
    switch = replace(SWITCH, uuid="lost")
    queue = sessions._queue_of("lost")

    def lost(session):
        raise Unreachable("silence")

    waiting = sessions._Order(lost)
    queue._waiting.append(waiting)
    assert 3 == sessions.run(switch, OPTIONS, lambda session: 3)
    assert isinstance(waiting.error, Unreachable)
    assert 2 == direct.opened
