"""BMCs recorded by the command, and replayed: the service learns of the replay what it knew."""

import concurrent.futures
import json
import subprocess
import sys
from contextlib import contextmanager

import pytest

from drivers.core.recording.bundle import load
from drivers.simulator.simulator import running
from tests.e2e import bare_metal
from tests.e2e.command_line import piped
from tests.support.fleet import CALM, Fleet, until

INTERFACES = {
    f"{kind}_interface": "redfish"
    for kind in ("power", "management", "inspect", "bios", "firmware", "raid")
}
#: Parts of the emulated machine; without a storage the emulator answers 500.
CPU = {"id": "0", "Id": "0", "socket": "0", "vendor": "v", "model": "m", "cores": 2, "threads": 4}
DRIVE = {"Id": "D1", "Name": "Drive", "CapacityBytes": 10**12, "Protocol": "SAS"}
CONTROLLER = {"MemberId": "0", "Name": "RAID", "SpeedGbps": 12}
PARTS = (
    "from sushy_tools.emulator.resources.systems.fakedriver import FakeDriver\n"
    "FakeDriver.get_total_memory = lambda self, identity: 8\n"
    "FakeDriver.get_total_cpus = lambda self, identity: 4\n"
    f"FakeDriver.get_processors = lambda self, identity: [{CPU!r}]\n"
    f"SUSHY_EMULATOR_STORAGE = {{{bare_metal.UUID!r}: [{{'Id': '1', 'Name': 'RAID',"
    f" 'StorageControllers': [{CONTROLLER!r}], 'Drives': ['D1']}}]}}\n"
    f"SUSHY_EMULATOR_DRIVES = {{({bare_metal.UUID!r}, '1'): [{DRIVE!r}]}}\n"
    f"SUSHY_EMULATOR_VOLUMES = {{({bare_metal.UUID!r}, '1'): []}}\n"
)
#: Facts of a node that come from its BMC.
FIELDS = ("properties", "boot_mode", "secure_boot", "power_state", "provision_state")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet"), conductors=1, **CALM) as fleet:
        fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
        yield fleet


def simulated(_folder):
    return running(machines=1, pages={"size": 3}, links_absolute=True, volume_type_only=True)


@contextmanager
def emulated(folder):
    with bare_metal.running(folder, settings=PARTS) as machine:
        yield machine


def inspected(fleet, name, address, system):
    """Enrol and inspect a machine; return the facts of its node, and its addresses."""
    info = {"redfish_address": address, "redfish_verify_ca": False}
    info |= {"redfish_username": "admin", "redfish_password": "admin"}
    info |= {"redfish_system_id": system} if system else {}
    fleet._create("nodes", {"name": name, "driver": "redfish", "driver_info": info, **INTERFACES})
    node = fleet.get(f"nodes/{name}")["uuid"]
    for verb in ("manage", "inspect"):
        fleet.provision([node], verb)
        fleet.await_state([node], "manageable", 15)
    facts = {key: fleet.get(f"nodes/{node}")[key] for key in FIELDS}
    facts["bios"] = [
        {
            key: value
            for key, value in setting.items()
            if key not in ("links", "created_at", "updated_at")
        }
        for setting in fleet.get(f"nodes/{node}/bios", detail="true")["bios"]
    ]
    facts["firmware"] = [
        {key: value for key, value in component.items() if not key.endswith("_at")}
        for component in fleet.get(f"nodes/{node}/firmware")["firmware"]
    ]
    ports = fleet.get("ports", node=node, fields="address,pxe_enabled")["ports"]
    return facts, {port["address"]: port["pxe_enabled"] for port in ports}


@contextmanager
def replayed(recording):
    command = [sys.executable, "-m", "drivers.simulator", "--replay", str(recording)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        try:
            (machine,) = json.loads(program.stdout.readline())["machines"]
            yield machine
        finally:
            program.terminate()


@pytest.mark.parametrize("source", [simulated, emulated])
def test_a_replayed_bmc_gives_the_facts_of_the_recorded_one(fleet, source, tmp_path):
    name = source.__name__
    with source(tmp_path) as original:
        if source is simulated:
            machine = original.machines[0]
            address, system = machine.redfish_address, machine.system_id
        else:
            address, system = original.bmc_url, None
        facts, addresses = inspected(fleet, name, address, system)
        recording = tmp_path / "bmc.json"
        answer = piped(fleet.url, "bmc", "record", name, "--file", str(recording), "-o", "json")
        assert 0 == answer.status, answer.errors
    new = {row["original"]: row["replacement"] for row in answer.read()}
    text = recording.read_text()
    assert not [value for value in (*addresses, address) if value in text]

    with replayed(recording) as machine:
        facts_again, addresses_again = inspected(
            fleet, f"{name}-again", machine["redfish_address"], machine["system_id"]
        )
    assert facts["properties"]
    assert {new[mac]: pxe for mac, pxe in addresses.items()} == addresses_again
    text = json.dumps(facts)
    for original, replacement in new.items():
        text = text.replace(f'"{original}"', f'"{replacement}"')
    expected = json.loads(text)
    for key, value in expected.items():
        assert (key, value) == (key, facts_again[key])


def test_an_operation_is_recorded_by_the_command(fleet, tmp_path):
    with running(machines=1) as original:
        machine = original.machines[0]
        inspected(fleet, "recorded", machine.redfish_address, machine.system_id)
        recording = tmp_path / "bmc.json"
        arguments = ("bmc", "record", "recorded", "--operation", "--file", str(recording))
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            command = thread.submit(piped, fleet.url, *arguments, "-o", "json")
            path = "nodes/recorded/bmc/recording"
            until(lambda: fleet.get(path)["until"] is not None)
            fleet.http.put(
                f"{fleet.url}/v1/nodes/recorded/states/power", json={"target": "power on"}
            )
            answer = command.result()
        assert 0 == answer.status, answer.errors
        assert fleet.get(path) == {"until": None, "left_out": 0, "exchanges": []}
    exchanges = load(recording).exchanges
    (order,) = [
        exchange for exchange in exchanges if '"ResetType"' in (exchange.request_body or "")
    ]
    assert ("POST", "power.change") == (order.method, order.step)
    text = recording.read_text()
    info = machine.driver_info()
    assert not [
        value for value in (info["redfish_password"], machine.redfish_address) if value in text
    ]
    with replayed(recording) as machine:
        assert machine["system_id"]
