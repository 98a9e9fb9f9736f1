"""Calls to conductors, by real processes over Redis."""

import os
import signal
import threading

import pytest

from drivers.simulator import redfish
from drivers.simulator.simulator import running
from tests.support.fleet import PATIENCE, Fleet, until

NMI = "management/inject_nmi"
DEVICE = "management/boot_device"


@pytest.fixture(scope="module")
def simulator():
    with running(machines=1, power_off_seconds=0.1) as bmcs:
        yield bmcs


def enrol(fleet, simulator):
    (node,) = fleet.enrol(simulator)
    fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
    return node


def put(fleet, node, path, body=None):
    return fleet.http.put(f"{fleet.url}/v1/nodes/{node}/{path}", json=body, timeout=60)


def fault(answer):
    return answer.json()["error_message"]


@pytest.fixture
def reading(monkeypatch):
    """Read the boot device of a silent BMC in a thread; return the thread and its answers."""
    question, silence = threading.Event(), redfish._silence
    monkeypatch.setattr(redfish, "_silence", lambda: question.set() or silence())

    def read(fleet, node):
        answers = []

        def ask():
            url = f"{fleet.url}/v1/nodes/{node}/{DEVICE}"
            answers.append(fleet.http.get(url, timeout=60))

        thread = threading.Thread(target=ask)
        question.clear()
        thread.start()
        assert question.wait(PATIENCE)
        return thread, answers

    return read


def test_calls_to_a_machine_go_through_its_conductor(tmp_path, simulator, reading):
    machine = simulator.machines[0]
    few = {"INGOT_API_API_WORKERS": "1", "INGOT_API_WAITING_THREADS": "1"}
    with Fleet(tmp_path, conductors=1, INGOT_API_ASK_TIMEOUT="6", **few) as fleet:
        node = enrol(fleet, simulator)
        assert "cdrom" in fleet.get(f"nodes/{node}/{DEVICE}/supported")["supported_boot_devices"]
        device = {"boot_device": "pxe", "persistent": True}
        assert 204 == put(fleet, node, DEVICE, device).status_code
        assert ("Pxe", "Continuous") == (machine.boot_target, machine.boot_enabled)
        assert device == fleet.get(f"nodes/{node}/{DEVICE}")
        refused = put(fleet, node, NMI)
        assert 502 == refused.status_code, refused.text
        assert "powered off" in fault(refused)

        # a slow change is an operation on the same machine
        assert 202 == put(fleet, node, "states/boot_mode", {"target": "bios"}).status_code
        until(lambda: "bios" == fleet.get(f"nodes/{node}")["boot_mode"])
        assert "Legacy" == machine.boot_mode
        fleet.provision([node], "manage")
        fleet.await_state([node], "manageable")
        settings = fleet.get(f"nodes/{node}/bios")["bios"]
        assert "On" == next(
            setting["value"] for setting in settings if setting["name"] == "NumLock"
        )
        firmware = fleet.get(f"nodes/{node}/firmware")["firmware"]
        assert ["bios", "bmc"] == [component["component"] for component in firmware]

        (fake,) = fleet.create_nodes(1)
        for path, body, status in (
            ("states/console", {"enabled": True}, 202),
            ("states/boot_mode", {"target": "bios"}, 202),
            ("vendor_passthru/second_method", {"bar": "kazoo"}, 202),
            ("vmedia", {"device_type": "cdrom", "image_url": "http://a/b.iso"}, 204),
            ("states/secure_boot", {"target": True}, 202),
        ):
            method = "POST" if path.startswith("v") else "PUT"
            url = f"{fleet.url}/v1/nodes/{fake}/{path}"
            assert status == fleet.http.request(method, url, json=body, timeout=60).status_code
            until(lambda: not fleet.get(f"nodes/{fake}")["reservation"], path)
        document = fleet.get(f"nodes/{fake}")
        assert ("enroll", "bios", True) == (
            document["provision_state"],
            document["boot_mode"],
            document["console_enabled"],
        )
        assert (
            f"secure boot of node {fake} is off, not on as requested: secure boot needs boot mode uefi"
            == document["last_error"]
        )
        assert "http://a/b.iso" in str(fleet.get(f"nodes/{fake}/vmedia"))
        assert {"returned": True} == fleet.operation(fake, "vendor")["steps"][0]["result"]

        # a silent BMC delays only the requests to it
        simulator.set_faults(0, bmc_silent=True)
        try:
            thread, answers = reading(fleet, node)
            assert 2 == len(fleet.get("nodes")["nodes"])
            assert thread.is_alive(), "the list has waited for the BMC"
            another = fleet.http.get(f"{fleet.url}/v1/nodes/{node}/{DEVICE}", timeout=60)
            assert 503 == another.status_code, another.text
            assert "5" == another.headers["Retry-After"]
            thread.join()
        finally:
            simulator.set_faults(0, bmc_silent=None)
        assert 504 == answers[0].status_code, answers[0].text
        for word in ("fleet-1", machine.redfish_address, node):
            assert word in fault(answers[0])


def test_a_call_to_a_conductor_that_dies_is_answered_by_the_next(tmp_path, simulator, reading):
    with Fleet(tmp_path, conductors=2, INGOT_API_ASK_TIMEOUT="30") as fleet:
        node = enrol(fleet, simulator)
        owner = fleet.get(f"nodes/{node}")["conductor"]
        pid = fleet.pids()["conductors"][owner]
        simulator.set_faults(0, bmc_silent=True)
        thread, answers = reading(fleet, node)
        os.kill(pid, signal.SIGKILL)
        simulator.set_faults(0, bmc_silent=None)
        thread.join()
        assert 200 == answers[0].status_code, answers[0].text
        assert owner != fleet.get(f"nodes/{node}")["conductor"]


def test_a_call_without_any_conductor_times_out_with_a_clear_error(tmp_path, simulator):
    with Fleet(tmp_path, conductors=1, INGOT_API_ASK_TIMEOUT="2") as fleet:
        node = enrol(fleet, simulator)
        os.kill(fleet.conductor(1), signal.SIGKILL)
        answer = put(fleet, node, DEVICE, {"boot_device": "pxe"})
        assert 504 == answer.status_code, answer.text
        assert "Conductor fleet-1 did not answer within 2 s" in fault(answer)
        until(lambda: 503 == put(fleet, node, DEVICE, {"boot_device": "pxe"}).status_code)
