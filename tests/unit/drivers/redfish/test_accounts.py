"""The password of a Redfish BMC, changed over HTTP at a simulated one."""

import asyncio
import logging
import time
from dataclasses import replace

import pytest

from drivers.builtin import HARDWARE_TYPES
from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    AccountLocked,
    InvalidDriverInfo,
    LoginRefused,
    NotSupported,
    PasswordUnsettled,
)
from drivers.core.password_rotation import KEY
from drivers.core.registry import load
from drivers.core.steps import Done, Failed, Wait
from drivers.net.networks import of_bmcs
from drivers.redfish import sweep
from drivers.redfish.accounts import RedfishAccount
from drivers.redfish.transport import access
from drivers.redfish.transport.client import Reply
from drivers.simulator.simulator import running
from tests.unit.drivers.machines import target


@pytest.fixture
def fleet():
    with running(machines=2) as simulator:
        yield simulator


@pytest.fixture
def machine(fleet):
    return fleet.machines[0]


@pytest.fixture
def registry():
    return load(HARDWARE_TYPES, ["redfish"], bmcs=Bmcs(trip_after=100))


class Node:
    """The record of a node of a simulated machine."""

    def __init__(self, machine, registry, **info):
        self.registry, self.uuid = registry, machine.uuid
        self.info, self.internal, self.other_nodes = machine.driver_info() | info, {}, []

    def target(self, progress=(), **fields):
        return replace(
            target(
                "redfish", registry=self.registry, uuid=self.uuid, driver_info=self.info, **fields
            ),
            driver_internal_info=self.internal,
            progress=dict(progress),
            nodes_with=lambda text: [
                (name, info) for name, info in self.other_nodes if text in str(info)
            ],
        )

    def run(self, progress=(), attempts=100):
        """Run the step without its pauses; return its last outcome."""
        outcome = Wait(dict(progress))
        while isinstance(outcome, Wait) and attempts:
            attempts -= 1
            it = self.target(outcome.progress)
            outcome = it.driver.management.run(it, "rotate_bmc_password", {})
            merged = {**self.internal, **it.reports.get("driver_internal_info", {})}
            self.internal = {key: value for key, value in merged.items() if value is not None}
            self.info = {**self.info, **it.reports.get("login_passwords", {})}
        return outcome


@pytest.mark.parametrize("auth", ["auto", "session", "basic"])
def test_a_new_password_is_in_use_at_once(machine, registry, auth, caplog):
    caplog.set_level(logging.DEBUG)
    node = Node(machine, registry, redfish_auth_type=auth)
    earlier_target = node.target()
    assert "power off" == earlier_target.driver.power.get_power_state(earlier_target)
    assert Done({"rotated": ["redfish_password"]}) == node.run()
    assert machine.password == node.info["redfish_password"] != "admin"
    later_target = node.target()
    assert "power off" == later_target.driver.power.get_power_state(later_target)
    assert 0 == machine.wrong_logins == machine.lockouts
    assert machine.password not in caplog.text
    assert machine.password not in str(list(machine.log))
    with pytest.raises(LoginRefused):
        earlier_target.driver.power.get_power_state(earlier_target)


def test_the_session_of_the_verification_is_ended(machine, registry):
    node = Node(machine, registry)
    node.run()
    assert {} == machine.sessions


@pytest.mark.parametrize(
    ("faults", "code", "words"),
    [
        ({"password_refused": "{password} was used before"}, "refused", "****** was used before"),
        ({"password_unapplied": True}, "unexpected_answer", "does not apply"),
        ({"password_cut": "before"}, "unconfirmed", "not confirmed"),
    ],
)
def test_a_bmc_that_does_not_change_it_keeps_the_old_one(fleet, machine, registry, faults, code,
                                                          words):  # fmt: skip
    fleet.set_faults(**faults)
    node = Node(machine, registry)
    failed = node.run()
    assert isinstance(failed, Failed)
    assert code == failed.code
    assert words in failed.reason
    assert "admin" == machine.password == node.info["redfish_password"]
    it = node.target()
    assert "power off" == it.driver.power.get_power_state(it)


def test_a_lost_answer_to_a_change_is_found_by_a_login(fleet, machine, registry):
    fleet.set_faults(password_cut="after")
    node = Node(machine, registry)
    assert isinstance(node.run(), Done)
    assert machine.password == node.info["redfish_password"] != "admin"


def test_a_locked_bmc_is_waited_for_and_its_lock_out_is_not_fed(fleet, machine, registry):
    fleet.set_faults(lockout_after=3)
    node = Node(machine, registry)
    ordered = node.run(attempts=1)
    machine.locked_until = time.monotonic() + 600
    locked = node.run(ordered.progress, attempts=1)
    assert isinstance(locked, Wait)
    assert "locked" in locked.reason
    assert locked.poll_after >= 300
    machine.locked_until = 0.0
    assert isinstance(node.run(locked.progress), Done)
    assert 0 == machine.lockouts


def test_no_other_command_logs_in_while_the_password_is_unsettled(machine, registry):
    node = Node(machine, registry)
    node.run(attempts=1)
    it = node.target()
    with pytest.raises(PasswordUnsettled):
        it.driver.power.get_power_state(it)

    async def swept():
        reach = of_bmcs(it.options, "redfish_address")
        async with sweep.power_state_reader(reach, 1, 5) as read:
            return await read(it)

    assert isinstance(asyncio.run(swept()), PasswordUnsettled)
    assert 0 == machine.wrong_logins


def test_a_user_of_several_nodes_keeps_its_password(fleet, machine, registry):
    node = Node(machine, registry)
    same = {**node.info, "redfish_address": f"{node.info['redfish_address']}/redfish/v1"}
    other_user = {**same, "redfish_username": "other"}
    node.other_nodes = [
        ("its-twin", same),
        ("third", other_user),
        ("broken", {"redfish_address": 7}),
    ]
    with pytest.raises(NotSupported, match="node its-twin has the same user"):
        node.run()
    assert "admin" == machine.password
    node.other_nodes = [("third", other_user), ("fourth", fleet.machines[1].driver_info())]
    assert isinstance(node.run(), Done)


def test_an_address_is_the_same_place_in_all_its_forms():
    def of(address):
        return access.place({"redfish_address": address})

    assert {"https://bmc.example:443"} == {
        of(it) for it in ("bmc.example", "https://BMC.example", "bmc.example:443/redfish/v1")
    }
    assert of("[2001:db8::1]") == of("https://[2001:DB8::1]:443") == of("2001:db8::1")
    assert of("http://a") != of("https://a")


def test_a_user_without_an_account_is_refused_before_anything_changes(machine, registry):
    node = Node(machine, registry, redfish_auth_type="session")
    node.info["redfish_username"] = ""
    with pytest.raises(InvalidDriverInfo):
        node.run()
    node.info = machine.driver_info() | {"redfish_password": "wrong"}
    with pytest.raises(LoginRefused):
        node.run()
    assert {} == node.internal
    assert KEY not in node.internal


@pytest.mark.parametrize("status", [403, 423, 429])
def test_a_refusal_for_a_while_is_no_wrong_password(machine, registry, status):
    account = RedfishAccount(Node(machine, registry).target(), Bmcs())
    with pytest.raises(AccountLocked) as locked:
        account._judge(Reply(status, None, retry_after=7.0))
    assert 7.0 == locked.value.retry_after
