"""Recording what a driver exchanges with a BMC, against the simulator."""

import json

import pytest

from drivers.core.bmc import Bmcs
from drivers.core.errors import HardwareError
from drivers.core.recording.traffic import Traffic
from drivers.simulator.simulator import running
from tests.unit.drivers.machines import new_registry, target


@pytest.fixture
def sim():
    with running(machines=1) as simulator:
        yield simulator


@pytest.fixture
def node(sim):
    traffic = Traffic()
    node = target(
        "redfish",
        registry=new_registry(Bmcs(trip_after=1000)),
        driver_info=sim.machines[0].driver_info(),
        record_exchange=traffic.add,
    )
    return node, traffic


def test_an_order_is_recorded_with_all_that_was_read_for_it(sim, node):
    node, traffic = node
    node.driver.management.set_boot_device(node, "pxe")
    requests = [(record["method"], record["status"]) for record in traffic.exchanges]
    assert ("PATCH", 200) in requests or ("PATCH", 204) in requests
    (login,) = [record for record in traffic.exchanges if record["path"].endswith("/Sessions")
                and record["method"] == "POST"]  # fmt: skip
    assert "******" == json.loads(login["request_body"])["Password"]
    (order,) = [record for record in traffic.exchanges if record["method"] == "PATCH"]
    assert "Pxe" == json.loads(order["request_body"])["Boot"]["BootSourceOverrideTarget"]
    text = json.dumps(traffic.exchanges)
    info = sim.machines[0].driver_info()
    session = node.driver.management.bmcs.get(info["redfish_address"] + info["redfish_system_id"])
    assert info["redfish_password"] not in text
    assert session.connection.token
    assert session.connection.token not in text


def test_an_order_without_an_answer_is_recorded(sim, node):
    node, traffic = node
    node.driver.management.get_boot_device(node)
    traffic.exchanges.clear()
    sim.set_faults(0, bmc_dead=True)
    with pytest.raises(HardwareError):
        node.driver.management.set_boot_device(node, "pxe")
    assert traffic.exchanges
    assert {0} == {record["status"] for record in traffic.exchanges}
    assert all(record["body"] for record in traffic.exchanges)


def test_a_refused_answer_is_recorded_with_its_reason(sim, node):
    node, traffic = node
    node.driver.management.get_boot_device(node)
    traffic.exchanges.clear()
    sim.set_faults(0, gzip_bomb={"times": 1})
    with pytest.raises(HardwareError):
        node.driver.management.get_boot_mode(node)
    assert 0 == traffic.exchanges[0]["status"]
    assert "compressed" in traffic.exchanges[0]["body"] or "MiB" in traffic.exchanges[0]["body"]


def test_the_next_command_of_another_step_is_not_recorded(node):
    node, traffic = node
    node.driver.management.get_boot_device(node)
    number = len(traffic.exchanges)
    other = target("redfish", driver_info=dict(node.driver_info), registry=None)
    object.__setattr__(other, "driver", node.driver)
    other.driver.management.get_boot_device(other)
    assert number == len(traffic.exchanges)
