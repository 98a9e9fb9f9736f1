"""Proofs of rude faults over raw HTTP.

A proof is a function named after its fault. It holds on a machine with the fault, and fails on a
polite one.
"""

import time

import pytest
import requests

from drivers.simulator.redfish_bmc.documents import INVENTORY, MANAGER, ROOT

UPDATE = f"{ROOT}/UpdateService/Actions/UpdateService.SimpleUpdate"
MEDIA = f"{MANAGER}/VirtualMedia"
INSERT = f"{MEDIA}/Cd/Actions/VirtualMedia.InsertMedia"
EJECT = f"{MEDIA}/Cd/Actions/VirtualMedia.EjectMedia"
IMAGE = {"Image": "http://127.0.0.1:1/a.iso"}
FIRMWARE = {"ImageURI": "http://127.0.0.1:1/9.9.bin", "Targets": [f"{INVENTORY}/BIOS"]}
#: Settings of all machines: tasks that can be seen running, and no boot within a test.
PACE = {"task_seconds": 0.1, "boot_seconds": 60.0}
#: Fault -> (its proof, its value).
PROOFS = {}


def proves(value=True):
    def register(proof):
        PROOFS[proof.__name__] = (proof, value)
        return proof

    return register


class Clock:
    """The simulator's clock: it stands still between two calls of `pass_time`."""

    def __init__(self):
        self.now = time.time()

    def time(self):
        return self.now

    def pass_time(self, seconds):
        self.now += seconds


CLOCK = Clock()


class Bmc:
    """Requests to the BMC of one machine."""

    def __init__(self, machine):
        self.machine = machine
        self.system = machine.system_id
        self.volumes = f"{self.system}/Storage/RAID/Volumes"
        self._http = requests.Session()
        self._http.trust_env = False
        self._http.auth = ("admin", "admin")

    def send(self, method, path, body=None, **headers):
        url = path if path.startswith("http") else f"{self.machine.redfish_address}{path}"
        options = {"allow_redirects": False, "timeout": 60}
        return self._http.request(method, url, json=body, headers=headers, **options)

    def get(self, path, **headers):
        return self.send("GET", path, **headers)

    def read(self, path):
        answer = self.get(path)
        assert 200 == answer.status_code, answer.text
        return answer.json()

    def post(self, path, body=None):
        return self.send("POST", path, body or {})

    def patch(self, body, path=None, **headers):
        return self.send("PATCH", path or self.system, body, **headers)

    def reset(self, kind):
        return self.post(f"{self.system}/Actions/ComputerSystem.Reset", {"ResetType": kind})

    def power(self):
        return self.read(self.system)["PowerState"]

    def members(self, path):
        return [member["@odata.id"] for member in self.read(path)["Members"]]

    def update(self, **changes):
        return self.post(UPDATE, FIRMWARE | changes)

    def version(self):
        return self.read(f"{INVENTORY}/BIOS")["Version"]

    def slot(self, name="Cd"):
        return self.read(f"{MEDIA}/{name}")

    def volume(self):
        drives = [{"@odata.id": f"{self.system}/Storage/RAID/Drives/{i}"} for i in range(2)]
        answer = self.post(self.volumes, {"RAIDType": "RAID1", "Links": {"Drives": drives}})
        assert 202 == answer.status_code, answer.text
        CLOCK.pass_time(0.15)
        return self.members(self.volumes)[0]


def cut(call, *arguments):
    """Assert that the connection of a request is cut."""
    with pytest.raises(requests.ConnectionError):
        call(*arguments)
