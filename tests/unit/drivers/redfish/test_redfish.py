import asyncio
import threading
import time
from dataclasses import replace

import pytest

from drivers.builtin import HARDWARE_TYPES
from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    BadImage,
    HardwareError,
    InvalidDriverInfo,
    LoginRefused,
    NotSupported,
    Refused,
    Unreachable,
)
from drivers.core.interface_kinds import REBOOT, SOFT_OFF
from drivers.core.registry import load
from drivers.core.steps import Done, Wait
from drivers.net.networks import of_bmcs
from drivers.redfish import sweep
from drivers.redfish.transport import access
from drivers.simulator.simulator import running
from tests.support.web import Handler, serving
from tests.unit.drivers.machines import target, with_option


@pytest.fixture(scope="module")
def fleet():
    with running(machines=4, power_off_seconds=0.1) as simulator:
        yield simulator


@pytest.fixture
def bmcs():
    return Bmcs(trip_after=100)


def node(fleet, bmcs, number=0, **info):
    machine = fleet.machines[number]
    return target(
        "redfish",
        registry=load(HARDWARE_TYPES, ["redfish"], bmcs=bmcs),
        uuid=machine.uuid,
        driver_info={
            "redfish_address": f"http://{machine.address}:{fleet.port}",
            "redfish_username": "admin",
            "redfish_password": "admin",
            "deploy_iso": fleet.medium("http://127.0.0.1:1"),
            **info,
        },
    )


def reach(node, method, *args):
    """Call a step of the power interface until it is done."""
    outcome = getattr(node.driver.power, method)(node, *args)
    for _ in range(50):
        if not isinstance(outcome, Wait):
            return outcome
        time.sleep(0.02)
        node = replace(node, progress=outcome.progress)
        outcome = getattr(node.driver.power, method)(node, *args)
    raise AssertionError("never reached")


def test_a_machine_is_powered_on_and_off(fleet, bmcs):
    it = node(fleet, bmcs)
    assert Done() == reach(it, "power_on")
    assert "power on" == it.driver.power.get_power_state(it)
    assert Done() == reach(it, "power_off")
    assert "power off" == it.driver.power.get_power_state(it)
    assert None is it.reports["agent"]
    assert Done() == reach(it, "change", REBOOT)
    assert "On" == fleet.machines[0].power
    outcome = it.driver.power.change(it, SOFT_OFF)  # no operating system runs that could shut down
    assert (600, "On") == (outcome.timeout, fleet.machines[0].power)


def test_a_machine_in_the_requested_power_state_gets_no_command(fleet, bmcs):
    def lost():
        raise AssertionError("ordered")

    it = replace(node(fleet, bmcs), before_order=lost)
    reach(node(fleet, bmcs), "power_off")
    assert Done() == it.driver.power.power_off(it)


def test_a_boot_device_is_set_and_read_back(fleet, bmcs):
    it = node(fleet, bmcs)
    management = it.driver.management
    management.set_boot_device(it, "pxe")
    assert {"boot_device": "pxe", "persistent": False} == management.get_boot_device(it)
    management.set_boot_device(it, "disk", persistent=True)
    assert {"boot_device": "disk", "persistent": True} == management.get_boot_device(it)
    assert {"pxe", "disk", "cdrom"} <= set(management.supported_boot_devices(it))
    with pytest.raises(NotSupported, match="floppy"):
        management.set_boot_device(it, "floppy")


def test_the_boot_mode_is_set_and_read_back(fleet, bmcs):
    it = node(fleet, bmcs)
    for mode in ("bios", "uefi"):
        it.driver.management.set_boot_mode(it, mode)
        assert mode == it.driver.management.get_boot_mode(it)


def test_the_ramdisk_is_inserted_and_ejected(fleet, bmcs):
    it = node(fleet, bmcs, 1)
    orders = []
    it = replace(it, before_order=lambda: orders.append(1))
    it.driver.boot.run(it, "prepare_ramdisk", {})
    assert {"boot_device": "cdrom", "persistent": False} == it.driver.management.get_boot_device(it)
    other = replace(it, driver_info={**it.driver_info, "deploy_iso": fleet.medium("http://b")})
    other.driver.boot.run(other, "prepare_ramdisk", {})
    assert other.driver_info["deploy_iso"] == fleet.machines[1].media["Cd"]
    it.driver.boot.run(it, "prepare_instance", {})
    assert "" == fleet.machines[1].media["Cd"]
    assert {"boot_device": "disk", "persistent": True} == it.driver.management.get_boot_device(it)
    ordered = len(orders)
    it.driver.boot.run(it, "clean_up_ramdisk", {})
    assert ordered == len(orders)


class Empty(Handler):
    def do_HEAD(self):
        self.answer(404)

    do_GET = do_HEAD


def test_a_missing_medium_is_not_inserted(fleet, bmcs):
    it, orders = node(fleet, bmcs, 1), []
    with serving(Empty) as server:
        info = {**it.driver_info, "deploy_iso": f"{server.url}/gone.iso"}
        it = replace(it, driver_info=info, before_order=lambda: orders.append(1))
        with pytest.raises(
            BadImage, match=r"/gone\.iso cannot be fetched: the server answered 404"
        ):
            it.driver.boot.run(it, "prepare_ramdisk", {})
    assert [] == orders


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"redfish_address": ""}, "redfish_address"),
        ({"redfish_address": "http://bmc?x"}, "redfish_address"),
        ({"redfish_address": "https://[2001:db8::1"}, "redfish_address"),
        ({"redfish_system_id": "1"}, "redfish_system_id"),
        ({"redfish_auth_type": "magic"}, "redfish_auth_type"),
        ({"redfish_username": None}, "redfish_username"),
        ({"deploy_iso": None}, "deploy_kernel"),
        ({"deploy_iso": None, "deploy_kernel": "http://k"}, "deploy_ramdisk"),
        ({"deploy_iso": "file:///iso"}, "deploy_iso"),
    ],
)
def test_a_wrong_field_of_driver_info_is_named(fleet, bmcs, wrong, field):
    it = node(fleet, bmcs, **wrong)
    with pytest.raises(InvalidDriverInfo, match=f"driver_info/{field}"):
        it.driver.boot.validate(it)


@pytest.mark.parametrize("auth", ["auto", "session", "basic"])
def test_wrong_credentials_are_refused_and_not_shown(fleet, bmcs, auth):
    it = node(fleet, bmcs, redfish_password="sesame", redfish_auth_type=auth)
    with pytest.raises(LoginRefused) as raised:
        it.driver.power.get_power_state(it)
    assert "does not accept driver_info/redfish_username and redfish_password" in str(raised.value)
    assert "sesame" not in str(raised.value)
    right = node(fleet, bmcs, redfish_auth_type=auth)
    assert right.driver.power.get_power_state(right) in ("power on", "power off")


def test_a_dead_bmc_is_unreachable_at_once_and_not_retried_immediately(fleet):
    bmcs = Bmcs(trip_after=2, cool_down=60)
    it = node(fleet, bmcs, 3)
    fleet.set_faults(3, bmc_dead=True)
    for _ in range(2):
        with pytest.raises(Unreachable, match="did not answer"):
            it.driver.power.get_power_state(it)
    with pytest.raises(Unreachable, match="not asked again"):
        it.driver.power.get_power_state(it)
    fleet.set_faults(3, bmc_dead=None)


def swept(*nodes, **limits):
    """Sweep all nodes concurrently; return uuid -> power state or error."""

    async def run():
        reach = of_bmcs(nodes[0].options, "redfish_address")
        async with sweep.power_state_reader(reach, **limits) as ask:
            return await asyncio.gather(*(ask(node) for node in nodes))

    return dict(zip((node.uuid for node in nodes), asyncio.run(run()), strict=True))


def test_a_sweep_reads_all_nodes_and_a_bad_bmc_affects_only_its_own(fleet, bmcs):
    nodes = [node(fleet, bmcs, number) for number in range(4)]
    reach(nodes[0], "power_on")
    reach(nodes[1], "power_off")
    fleet.set_faults(2, bmc_silent=True)
    started = time.monotonic()
    states = swept(*nodes, connections=2, timeout=0.5)
    assert time.monotonic() - started < 20  # it would be silent for ever
    fleet.set_faults(2, bmc_silent=None)
    assert "power on" == states[nodes[0].uuid]
    assert "power off" == states[nodes[1].uuid]
    assert isinstance(states[nodes[2].uuid], Unreachable)
    assert isinstance(states[nodes[3].uuid], str)


@pytest.mark.parametrize(
    ("document", "health"),
    [
        ({"Status": {"Health": "Critical"}}, "Critical"),
        ({"Status": {"Health": "Splendid"}}, None),
        ({"Status": {"Health": ["OK"]}}, None),
        ({"Status": None}, None),
        ({}, None),
    ],
)
def test_health_has_ironics_values(document, health):
    assert health == sweep._health(document)


def test_a_sweep_reports_health_and_boot_mode(fleet, bmcs):
    it = node(fleet, bmcs)
    swept(it)
    reads = fleet.machines[0].reads
    swept(it)
    assert {"health": "OK", "boot_mode": "uefi"} == it.reports
    assert 1 == fleet.machines[0].reads - reads


@pytest.mark.parametrize(
    ("driver_info", "verify"),
    [({}, "/ca"), ({"redfish_verify_ca": "true"}, "/ca"), ({"redfish_verify_ca": "no"}, False),
     ({"redfish_verify_ca": "/own"}, "/own")],
)  # fmt: skip
def test_a_nodes_verify_ca_overrides_the_setting(fleet, bmcs, driver_info, verify):
    options = with_option("redfish", verify_ca="/ca")
    assert (
        verify == access.access(replace(node(fleet, bmcs, **driver_info), options=options)).verify
    )
    assert True is access.access(node(fleet, bmcs)).verify


@pytest.mark.parametrize("auth", ["session", "basic"])
def test_a_sweep_opens_a_new_session_after_the_bmc_has_ended_it(fleet, bmcs, auth):
    it = node(fleet, bmcs, redfish_auth_type=auth)
    wrong = node(fleet, bmcs, redfish_auth_type=auth, redfish_password="sesame")
    for _ in range(2):
        states = swept(it)
        assert isinstance(states[it.uuid], str), states
        fleet.machines[0].sessions.clear()
    refused = swept(wrong)[it.uuid]
    assert isinstance(refused, LoginRefused)


def test_a_sweep_waits_for_its_turn_behind_a_command(fleet, bmcs):
    it = node(fleet, bmcs)
    key = it.driver_info["redfish_address"]
    entered, release = threading.Event(), threading.Event()

    def order():
        with bmcs.turn(key):
            entered.set()
            release.wait(60)

    thread = threading.Thread(target=order)
    thread.start()
    entered.wait(60)
    busy = swept(it, timeout=0.1)[it.uuid]
    assert isinstance(busy, HardwareError)
    assert 0 == bmcs.get(key).failures
    release.set()
    thread.join()
    assert isinstance(swept(it)[it.uuid], str)


def test_a_system_that_the_bmc_does_not_have_is_refused(fleet, bmcs):
    it = node(fleet, bmcs, redfish_system_id="/redfish/v1/Systems/none")
    with pytest.raises(Refused):
        it.driver.power.get_power_state(it)


def test_a_slow_bmc_is_unreachable_after_the_timeout(fleet, bmcs):
    it = replace(node(fleet, bmcs, 1), options=with_option("redfish", read_timeout=0.2))
    fleet.set_faults(1, bmc_silent=True)
    started = time.monotonic()
    with pytest.raises(Unreachable):
        it.driver.power.get_power_state(it)
    assert time.monotonic() - started < 20  # it would be silent for ever
    fleet.set_faults(1, bmc_silent=None)
