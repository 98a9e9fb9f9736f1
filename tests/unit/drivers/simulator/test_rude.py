"""
Rude faults over raw HTTP: each behaves as its row of the table says.

A proof is a function named after its fault. It holds on a machine with the fault, and fails on a
polite one.
"""

import gzip
import http.client
import itertools
import json
import sys
import time
from types import SimpleNamespace

import pytest
import requests

from drivers.simulator import fault_settings
from drivers.simulator.documents import CHASSIS, INVENTORY, MANAGER, MONITORS, ROOT, SESSIONS, TASKS
from drivers.simulator.fault_settings import BadFault
from drivers.simulator.machine import BIOS_DEFAULTS
from drivers.simulator.rude.profiles import PROFILES
from drivers.simulator.rude.table import ROWS
from drivers.simulator.simulator import running

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


@pytest.fixture(scope="module")
def fleet():
    with (
        pytest.MonkeyPatch.context() as patch,
        running(machines=2 * len(ROWS) + 50, **PACE) as simulator,
    ):
        for name, module in list(sys.modules.items()):
            if name.startswith("drivers.simulator.") and hasattr(module, "time"):
                clock = CLOCK if module.time is time else CLOCK.time
                patch.setattr(module, "time", clock)
        yield SimpleNamespace(simulator=simulator, numbers=itertools.count())


@pytest.fixture
def bmc(fleet):
    number = next(fleet.numbers)
    bmc = Bmc(fleet.simulator.machines[number])
    bmc.set_faults = lambda **settings: fleet.simulator.set_faults(number, **settings)
    return bmc


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_fault_behaves_as_its_row_says(bmc, name):
    assert name in PROOFS, f"the fault {name} has no proof"
    proof, value = PROOFS[name]
    bmc.set_faults(**{name: value})
    proof(bmc)


def cut(call, *arguments):
    """Assert that the connection of a request is cut."""
    with pytest.raises(requests.ConnectionError):
        call(*arguments)


# Transport


@proves()
def closes_silently(bmc):
    connection = http.client.HTTPConnection(bmc.machine.address, bmc.machine.port, timeout=60)
    connection.request("GET", ROOT)
    answer = connection.getresponse()
    assert answer.read()
    assert "keep-alive" == answer.getheader("Connection")
    assert b"" == connection.sock.recv(1) if readable(connection.sock) else pytest.fail("open")


def readable(sock):
    sock.settimeout(0.2)
    try:
        return sock.recv(1, 2) == b""  # MSG_PEEK
    except TimeoutError:
        return False


@proves()
def answer_cut_short(bmc):
    with pytest.raises(requests.RequestException):
        bmc.get(ROOT)


@proves()
def order_lost(bmc):
    cut(bmc.reset, "On")
    assert "Off" == bmc.power()


@proves()
def answer_lost(bmc):
    cut(bmc.reset, "On")
    assert "On" == bmc.power()


@proves()
def read_lost_after_order(bmc):
    assert 204 == bmc.reset("On").status_code
    cut(bmc.get, bmc.system)
    assert "On" == bmc.power()


@proves({"times": 2})
def busy(bmc):
    answers = [bmc.get(bmc.system), bmc.reset("On"), bmc.reset("On")]
    assert [503, 503, 204] == [answer.status_code for answer in answers]
    assert "1" == answers[0].headers["Retry-After"]


def assert_redirect(answer, status, place):
    assert (status, place) == (answer.status_code, answer.headers.get("Location"))


@proves()
def redirect_to_slash(bmc):
    assert_redirect(bmc.get(f"{TASKS}?a=b"), 308, f"{TASKS}/?a=b")
    assert TASKS == bmc.read(f"{TASKS}/")["@odata.id"]


@proves()
def redirect_from_slash(bmc):
    assert_redirect(bmc.get(f"{TASKS}/"), 308, TASKS)
    assert 200 == bmc.get(TASKS).status_code


@proves()
def redirect_absolute(bmc):
    place = f"{bmc.machine.redfish_address}{TASKS}/"
    assert_redirect(bmc.get(TASKS), 302, place)
    assert 200 == bmc.get(place).status_code


@proves()
def redirect_orders(bmc):
    path = f"{bmc.system}/Actions/ComputerSystem.Reset"
    assert_redirect(bmc.reset("On"), 307, f"{path}/")
    assert "Off" == bmc.power()
    assert 204 == bmc.post(f"{path}/", {"ResetType": "On"}).status_code
    assert "On" == bmc.power()


@proves({"to": "https://198.51.100.7"})
def redirect_elsewhere(bmc):
    assert_redirect(bmc.get(TASKS), 307, f"https://198.51.100.7{TASKS}")


@proves()
def redirect_endless(bmc):
    assert_redirect(bmc.get(TASKS), 302, TASKS)


@proves()
def gzip_only(bmc):
    assert 406 == bmc.get(TASKS, **{"Accept-Encoding": "identity"}).status_code
    answer = bmc.get(TASKS, **{"Accept-Encoding": "gzip"})
    assert ("gzip", TASKS) == (answer.headers["Content-Encoding"], answer.json()["@odata.id"])


@proves()
def gzip_unasked(bmc):
    answer = bmc.get(TASKS, **{"Accept-Encoding": "identity"})
    assert ("gzip", TASKS) == (answer.headers.get("Content-Encoding"), answer.json()["@odata.id"])


@proves()
def gzip_bomb(bmc):
    connection = http.client.HTTPConnection(bmc.machine.address, bmc.machine.port, timeout=20)
    connection.request("GET", ROOT)
    packed = connection.getresponse().read()
    assert len(packed) < 1 << 20
    assert len(gzip.decompress(packed)) > 128 << 20


@proves()
def not_utf8(bmc):
    content = bmc.get(TASKS).content
    assert TASKS == json.loads(content.decode(errors="replace"))["@odata.id"]
    with pytest.raises(UnicodeDecodeError):
        content.decode()


@proves()
def control_characters(bmc):
    content = bmc.get(TASKS).content
    assert TASKS == json.loads(content, strict=False)["@odata.id"]
    with pytest.raises(ValueError, match="control character"):
        json.loads(content)


@proves()
def not_a_number(bmc):
    assert b'"Description":NaN' in bmc.get(TASKS).content


@proves()
def byte_order_mark(bmc):
    assert bmc.get(TASKS).content.startswith(b"\xef\xbb\xbf{")


@proves()
def links_absolute(bmc):
    here = bmc.machine.redfish_address
    assert f"{here}{bmc.system}" == bmc.members(f"{ROOT}/Systems")[0]
    assert bmc.update().headers["Location"].startswith(f"{here}{MONITORS}")


def assert_tagged(bmc, *, header):
    answer = bmc.get(bmc.system)
    tag = answer.json().get("@odata.etag")
    assert tag
    assert (tag if header else None) == answer.headers.get("ETag")
    change = {"AssetTag": "here"}
    assert 428 == bmc.patch(change).status_code
    assert 412 == bmc.patch(change, **{"If-Match": '"old"'}).status_code
    assert 204 == bmc.patch(change, **{"If-Match": tag}).status_code
    assert 412 == bmc.patch(change, **{"If-Match": tag}).status_code


@proves()
def if_match_demanded(bmc):
    assert_tagged(bmc, header=True)


@proves()
def etag_in_body(bmc):
    assert_tagged(bmc, header=False)


@proves({"form": "html"})
def odd_errors(bmc):
    answer = bmc.get(f"{ROOT}/Nothing")
    assert (404, "text/html") == (answer.status_code, answer.headers["Content-Type"])
    assert "There is no resource" in answer.text


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("text", "There is"),
        ("list", '["There'),
        ("flat", '{"code":404'),
        ("null", "null"),
        ("empty", ""),
    ],
)
def test_errors_have_other_forms(bmc, form, start):
    bmc.set_faults(odd_errors={"form": form})
    answer = bmc.get(f"{ROOT}/Nothing")
    assert 404 == answer.status_code
    assert answer.text.startswith(start)
    assert bool(start) == bool(answer.text)


@proves({"orders": ["power"], "status": 400})
def order_fails(bmc):
    assert 400 == bmc.reset("On").status_code
    assert "Off" == bmc.power()
    assert 204 == bmc.patch({"AssetTag": "here"}).status_code


@proves()
def order_fails_late(bmc):
    assert 500 == bmc.reset("On").status_code
    assert "On" == bmc.power()


@proves({"orders": ["insert"]})
def order_without_effect(bmc):
    assert 204 == bmc.post(INSERT, IMAGE).status_code
    assert not bmc.slot()["Inserted"]


def log_in(bmc):
    return requests.post(
        f"{bmc.machine.redfish_address}{SESSIONS}",
        json={"UserName": "admin", "Password": "admin"}, timeout=60,
    )  # fmt: skip


def status_with_token(bmc, token):
    headers = {"X-Auth-Token": token}
    url = f"{bmc.machine.redfish_address}{bmc.system}"
    return requests.get(url, headers=headers, timeout=60).status_code


@proves({"most": 2})
def session_limit(bmc):
    assert [201, 201, 503] == [log_in(bmc).status_code for _ in range(3)]


@proves({"seconds": 0.1})
def sessions_expire(bmc):
    token = log_in(bmc).headers["X-Auth-Token"]
    assert 200 == status_with_token(bmc, token)
    CLOCK.pass_time(0.15)
    assert 401 == status_with_token(bmc, token)


@proves()
def sessions_absent(bmc):
    assert 404 == log_in(bmc).status_code
    root = bmc.read(ROOT)
    assert ("SessionService" not in root, {}) == (True, root["Links"])
    assert 200 == bmc.get(bmc.system).status_code


# Tasks and updates


def task_of(answer):
    assert 202 == answer.status_code
    return answer.headers["Location"].rsplit("/", 1)[-1]


def end_of(bmc, answer):
    """Wait for the end of a task; return it."""
    number = task_of(answer)
    CLOCK.pass_time(0.15)
    return bmc.read(f"{TASKS}/{number}")


@proves()
def task_ends_badly(bmc):
    task = end_of(bmc, bmc.update())
    assert ("Completed", "Critical") == (task["TaskState"], task["TaskStatus"])
    assert "verification" in task["Messages"][0]["Message"]
    assert "1.0.0" == bmc.version()


@proves()
def task_never_ends(bmc):
    assert "Running" == end_of(bmc, bmc.update())["TaskState"]
    assert "1.0.0" == bmc.version()


@proves({"reads": 2})
def task_appears_late(bmc):
    answer = bmc.update()
    paths = [f"{TASKS}/{task_of(answer)}", answer.headers["Location"], f"{TASKS}/{task_of(answer)}"]
    assert [404, 404, 200] == [bmc.get(path).status_code for path in paths]
    assert b"" == answer.content


@proves()
def task_deleted_at_end(bmc):
    answer = bmc.update()
    assert 202 == bmc.get(answer.headers["Location"]).status_code
    CLOCK.pass_time(0.15)
    paths = [f"{TASKS}/{task_of(answer)}", answer.headers["Location"]]
    assert [404, 404] == [bmc.get(path).status_code for path in paths]
    assert "9.9" == bmc.version()


@proves()
def task_deleted_midrun(bmc):
    bmc.set_faults(task_seconds=0.6)
    answer = bmc.update()
    assert 202 == bmc.get(answer.headers["Location"]).status_code
    CLOCK.pass_time(0.35)
    assert 404 == bmc.get(answer.headers["Location"]).status_code
    assert "1.0.0" == bmc.version()
    CLOCK.pass_time(0.35)
    assert "9.9" == bmc.version()


def end_of_monitor(bmc, answer):
    place = answer.headers["Location"]
    assert (202, True) == (bmc.get(place).status_code, place.startswith(MONITORS))
    CLOCK.pass_time(0.15)
    return bmc.get(place)


@proves()
def monitor_204(bmc):
    assert 204 == end_of_monitor(bmc, bmc.update()).status_code


@proves()
def monitor_200_message(bmc):
    answer = end_of_monitor(bmc, bmc.update())
    assert (200, ["error"]) == (answer.status_code, list(answer.json()))


@proves()
def monitor_error(bmc):
    answer = end_of_monitor(bmc, bmc.update())
    assert (400, True) == (answer.status_code, "not suitable" in answer.text)
    assert "1.0.0" == bmc.version()


@proves()
def monitor_only(bmc):
    answer = bmc.update()
    assert (b"", 404) == (answer.content, bmc.get(f"{TASKS}/{task_of(answer)}").status_code)
    assert 200 == end_of_monitor(bmc, answer).status_code


@proves()
def location_is_task(bmc):
    answer = bmc.update()
    assert answer.headers["Location"].startswith(f"{TASKS}/")
    assert (b"", 200) == (answer.content, bmc.get(answer.headers["Location"]).status_code)


@proves()
def location_missing(bmc):
    answer = bmc.update()
    assert (202, None) == (answer.status_code, answer.headers.get("Location"))
    assert answer.json()["TaskMonitor"].startswith(MONITORS)


@proves()
def update_without_task(bmc):
    answer = bmc.update()
    assert (200, None) == (answer.status_code, answer.headers.get("Location"))
    assert [] == bmc.members(TASKS)
    assert "1.0.0" == bmc.version()
    CLOCK.pass_time(0.15)
    assert "9.9" == bmc.version()


@proves()
def update_without_effect(bmc):
    task = end_of(bmc, bmc.update())
    assert ("Completed", "OK") == (task["TaskState"], task["TaskStatus"])
    assert "1.0.0" == bmc.version()


@proves({"seconds": 0.3})
def update_shown_late(bmc):
    assert "Completed" == end_of(bmc, bmc.update())["TaskState"]
    assert "1.0.0" == bmc.version()
    CLOCK.pass_time(0.3)
    assert "9.9" == bmc.version()


@proves()
def update_at_reset(bmc):
    assert "Completed" == end_of(bmc, bmc.update())["TaskState"]
    assert "1.0.0" == bmc.version()
    bmc.reset("On")
    assert "9.9" == bmc.version()


@proves()
def update_targets_demanded(bmc):
    statuses = [bmc.update(**changes).status_code for changes in ({"Targets": []}, {})]
    assert [400, 202] == statuses


@proves()
def update_targets_refused(bmc):
    statuses = [bmc.update(**changes).status_code for changes in ({"Targets": []}, {})]
    assert [202, 400] == statuses


@proves()
def update_unsuitable(bmc):
    answer = bmc.update()
    assert (400, True) == (answer.status_code, "not applicable" in answer.text)


@proves({"seconds": 0.3})
def bmc_restarts_after_update(bmc):
    token = log_in(bmc).headers["X-Auth-Token"]
    bmc.update()
    assert 200 == bmc.get(ROOT).status_code
    CLOCK.pass_time(0.15)
    cut(bmc.get, ROOT)
    CLOCK.pass_time(0.3)
    assert "9.9" == bmc.version()
    assert 401 == status_with_token(bmc, token)


@proves()
def second_system(bmc):
    own, neighbour = bmc.members(f"{ROOT}/Systems")
    assert (bmc.system, neighbour) == (own, bmc.read(neighbour)["@odata.id"])
    assert 3 == len([bmc.read(path) for path in bmc.members(INVENTORY)])
    bmc.update()
    assert "update firmware of the neighbour" not in what(bmc)
    bmc.update(Targets=[])
    assert "update firmware of the neighbour" in what(bmc)


def what(bmc):
    return [entry["what"] for entry in bmc.machine.log]


# Power


@proves({"status": 503, "seconds": 0.2, "retry_after": 2})
def power_refused_in_transition(bmc):
    assert 204 == bmc.reset("On").status_code
    answer = bmc.reset("ForceOff")
    assert (503, "2") == (answer.status_code, answer.headers.get("Retry-After"))
    assert "On" == bmc.power()
    CLOCK.pass_time(0.25)
    assert 204 == bmc.reset("ForceOff").status_code


@proves()
def power_refused_when_there(bmc):
    assert [409, 204, 409] == [bmc.reset(kind).status_code for kind in ("ForceOff", "On", "On")]


@proves({"state": "Reset", "seconds": 0.2})
def power_state_odd(bmc):
    assert "Off" == bmc.power()
    bmc.reset("On")
    assert "Reset" == bmc.power()
    CLOCK.pass_time(0.25)
    assert "On" == bmc.power()


@proves()
def power_state_unknown(bmc):
    assert bmc.power() is None


def test_a_power_state_can_be_absent(bmc):
    bmc.set_faults(power_state_unknown={"state": "absent"})
    assert "PowerState" not in bmc.read(bmc.system)


@proves({"types": ["On", "GracefulShutdown"]})
def power_reset_types(bmc):
    action = bmc.read(bmc.system)["Actions"]["#ComputerSystem.Reset"]
    assert ["On", "GracefulShutdown"] == action["ResetType@Redfish.AllowableValues"]
    assert [204, 400] == [bmc.reset(kind).status_code for kind in ("On", "ForceOff")]


@proves()
def reset_types_hidden(bmc):
    assert ["target"] == list(bmc.read(bmc.system)["Actions"]["#ComputerSystem.Reset"])


# Media and boot


@proves()
def media_slot_without_insert(bmc):
    first, second, _ = bmc.members(MEDIA)
    slot = bmc.read(first)
    assert (["CD", "DVD"], {}) == (slot["MediaTypes"], slot["Actions"])
    assert 404 == bmc.post(f"{first}/Actions/VirtualMedia.InsertMedia", IMAGE).status_code
    assert "InsertMedia" in str(bmc.read(second)["Actions"])


@proves()
def media_slot_refuses(bmc):
    first, _, _ = bmc.members(MEDIA)
    target = bmc.read(first)["Actions"]["#VirtualMedia.InsertMedia"]["target"]
    assert [400, 204] == [bmc.post(path, IMAGE).status_code for path in (target, INSERT)]


@proves()
def media_insert_by_patch(bmc):
    path = f"{MEDIA}/Cd"
    assert "Actions" not in bmc.slot()
    assert 405 == bmc.post(INSERT, IMAGE).status_code
    assert 204 == bmc.patch({**IMAGE, "Inserted": True}, path).status_code
    assert IMAGE["Image"] == bmc.slot()["Image"]
    assert 204 == bmc.patch({"Image": None, "Inserted": False}, path).status_code
    assert not bmc.slot()["Inserted"]


@proves()
def media_types_missing(bmc):
    assert "MediaTypes" not in bmc.slot()


@proves({"seconds": 0.3})
def media_stale_after_eject(bmc):
    bmc.post(INSERT, IMAGE)
    bmc.post(EJECT)
    assert (True, IMAGE["Image"]) == (bmc.slot()["Inserted"], bmc.slot()["Image"])
    assert not bmc.machine.media["Cd"]
    CLOCK.pass_time(0.35)
    assert (False, None) == (bmc.slot()["Inserted"], bmc.slot()["Image"])
    bmc.post(INSERT, IMAGE)
    bmc.post(EJECT)
    other = {"Image": "http://127.0.0.1:1/b.iso"}
    assert 204 == bmc.post(INSERT, other).status_code
    assert other["Image"] == bmc.slot()["Image"]


@proves()
def media_lost_at_power_off(bmc):
    bmc.reset("On")
    bmc.post(INSERT, IMAGE)
    bmc.reset("ForceOff")
    assert ("", True) == (bmc.machine.media["Cd"], bmc.slot()["Inserted"])
    assert [409, 204, 204] == [
        bmc.post(path, IMAGE).status_code for path in (INSERT, EJECT, INSERT)
    ]
    assert IMAGE["Image"] == bmc.machine.media["Cd"]


@proves({"seconds": 0.2})
def media_shown_late(bmc):
    bmc.post(INSERT, IMAGE)
    assert not bmc.slot()["Inserted"]
    CLOCK.pass_time(0.25)
    assert bmc.slot()["Inserted"]


@proves({"seconds": 0.1})
def media_insert_by_task(bmc):
    answer = bmc.post(INSERT, IMAGE)
    assert not bmc.slot()["Inserted"]
    assert "Completed" == end_of(bmc, answer)["TaskState"]
    assert bmc.slot()["Inserted"]


def test_an_insert_by_task_needs_a_session_and_outlives_it(bmc):
    bmc.set_faults(media_insert_by_task={"seconds": 0.1})
    headers = {"X-Auth-Token": log_in(bmc).headers["X-Auth-Token"]}
    assert 401 == bmc.send("POST", INSERT, IMAGE, **{"X-Auth-Token": "ended"}).status_code
    assert 202 == bmc.send("POST", INSERT, IMAGE, **headers).status_code
    for path in bmc.members(SESSIONS):
        bmc.send("DELETE", path)
    CLOCK.pass_time(0.25)
    assert bmc.slot()["Inserted"]


def test_an_insert_by_task_can_fail(bmc):
    bmc.set_faults(media_insert_by_task={"seconds": 0.1, "fails": True})
    assert "Exception" == end_of(bmc, bmc.post(INSERT, IMAGE))["TaskState"]
    assert not bmc.slot()["Inserted"]


def boot(**values):
    return {"Boot": {f"BootSourceOverride{name}": value for name, value in values.items()}}


def boot_mode(bmc):
    return bmc.read(bmc.system)["Boot"].get("BootSourceOverrideMode")


@proves()
def boot_mode_lost(bmc):
    assert 204 == bmc.patch(boot(Target="Pxe", Enabled="Once")).status_code
    assert "Legacy" == boot_mode(bmc)
    bmc.patch(boot(Target="Pxe", Enabled="Once", Mode="UEFI"))
    assert "UEFI" == boot_mode(bmc)


@proves()
def boot_whole_demanded(bmc):
    orders = [boot(Target="Pxe", Enabled="Once"), boot(Target="Pxe", Enabled="Once", Mode="UEFI")]
    assert [400, 204] == [bmc.patch(order).status_code for order in orders]


@proves()
def boot_mode_fixed(bmc):
    assert [400, 204] == [bmc.patch(boot(Mode=mode)).status_code for mode in ("Legacy", "UEFI")]


@proves()
def boot_mode_not_shown(bmc):
    assert boot_mode(bmc) is None


@proves()
def secure_boot_absent(bmc):
    assert "SecureBoot" not in bmc.read(bmc.system)
    assert 404 == bmc.get(f"{bmc.system}/SecureBoot").status_code


@proves()
def patch_answers_document(bmc):
    answer = bmc.patch(boot(Target="Pxe", Enabled="Once"))
    assert (200, "None") == (answer.status_code, answer.json()["Boot"]["BootSourceOverrideTarget"])
    assert "Pxe" == bmc.read(bmc.system)["Boot"]["BootSourceOverrideTarget"]


# Collections and parts


@proves({"size": 1})
def pages(bmc):
    path, members = f"{bmc.system}/EthernetInterfaces", []
    page = bmc.read(path)
    assert (1, 2) == (len(page["Members"]), page["Members@odata.count"])
    members += page["Members"]
    page = bmc.read(page["Members@odata.nextLink"])
    members += page["Members"]
    assert "Members@odata.nextLink" not in page
    assert ["NIC0", "NIC1"] == [member["@odata.id"].rsplit("/", 1)[-1] for member in members]


@proves()
def pages_endless(bmc):
    assert TASKS == bmc.read(TASKS)["Members@odata.nextLink"]


@proves()
def property_missing(bmc):
    processor = bmc.read(f"{bmc.system}/Processors/CPU0")
    assert ("InstructionSet" not in processor, "CPU") == (True, processor["ProcessorType"])


@proves({"property": "CoreCount", "value": '"many"'})
def property_odd(bmc):
    assert "many" == bmc.read(bmc.system)["ProcessorSummary"]["CoreCount"]


@proves()
def volume_type_only(bmc):
    volume = bmc.read(bmc.volume())
    assert ("Mirrored", None) == (volume.get("VolumeType"), volume.get("RAIDType"))


@proves()
def volume_of_raw_drive(bmc):
    (raw,) = bmc.members(bmc.volumes)
    assert "RawDevice" == bmc.read(raw)["VolumeType"]
    assert 400 == bmc.send("DELETE", raw).status_code


@proves()
def delete_apply_time_refused(bmc):
    volume = bmc.volume()
    apply = {"@Redfish.OperationApplyTime": "Immediate"}
    answer = bmc.send("DELETE", volume, apply)
    assert (500, True) == (answer.status_code, "SYS029" in answer.text)
    assert 202 == bmc.send("DELETE", volume).status_code


@proves({"index": 1})
def drive_missing(bmc):
    drives = bmc.read(f"{bmc.system}/Storage/RAID")["Drives"]
    statuses = [bmc.get(drive["@odata.id"]).status_code for drive in drives]
    assert [200, 404, 200, 200] == statuses


@proves()
def controller_missing(bmc):
    assert "StorageControllers" not in bmc.read(f"{bmc.system}/Storage/RAID")


@proves()
def nvme_attached_directly(bmc):
    nvme, _ = bmc.members(f"{bmc.system}/Storage")
    storage = bmc.read(nvme)
    assert {"StorageControllers", "Volumes"}.isdisjoint(storage)
    assert "NVMe" == bmc.read(storage["Drives"][0]["@odata.id"])["Protocol"]


@proves()
def bios_values_as_text(bmc):
    assert "115200" == bmc.read(f"{bmc.system}/Bios")["Attributes"]["SerialBaudRate"]
    path = f"{bmc.system}/Bios/Settings"
    changes = [{"Attributes": {"SerialBaudRate": value}} for value in ("9600", 9600)]
    assert [400, 204] == [bmc.patch(change, path).status_code for change in changes]


@proves()
def bios_without_registry(bmc):
    assert "AttributeRegistry" not in bmc.read(f"{bmc.system}/Bios")
    assert 404 == bmc.get(f"{ROOT}/Registries").status_code
    assert set(BIOS_DEFAULTS) == set(bmc.read(f"{bmc.system}/Bios")["Attributes"])


@proves()
def registry_changes_with_update(bmc):
    def choices():
        registry = bmc.read(f"{ROOT}/Registries/BiosAttributeRegistry/en")
        entries = registry["RegistryEntries"]["Attributes"]
        (entry,) = [entry for entry in entries if entry["AttributeName"] == "NumLock"]
        return [value["ValueName"] for value in entry["Value"]]

    assert ["On", "Off"] == choices()
    end_of(bmc, bmc.update())
    assert ["On", "Off", "Automatic"] == choices()


@proves({"mac": "01:00:5e:00:00:01"})
def mac_invalid(bmc):
    interface = bmc.read(f"{bmc.system}/EthernetInterfaces/NIC1")
    assert "01:00:5e:00:00:01" == interface["MACAddress"] == interface["PermanentMACAddress"]
    assert bmc.machine.mac == bmc.read(f"{bmc.system}/EthernetInterfaces/NIC0")["MACAddress"]


@proves()
def mac_only_permanent(bmc):
    interface = bmc.read(f"{bmc.system}/EthernetInterfaces/NIC0")
    assert (None, bmc.machine.mac) == (interface["MACAddress"], interface["PermanentMACAddress"])


@proves()
def sensors_only(bmc):
    chassis = bmc.read(CHASSIS)
    assert {"Power", "Thermal"}.isdisjoint(chassis)
    assert 404 == bmc.get(f"{CHASSIS}/Thermal").status_code
    (sensor,) = bmc.members(chassis["Sensors"]["@odata.id"])
    assert 24 == bmc.read(sensor)["Reading"]
    assert 501 == bmc.get(f"{CHASSIS}/Sensors?$expand=.").status_code


@proves()
def sensors_in_subsystems(bmc):
    chassis = bmc.read(CHASSIS)
    assert {"Power", "Thermal", "Sensors"}.isdisjoint(chassis)
    thermal = bmc.read(chassis["ThermalSubsystem"]["@odata.id"])
    assert bmc.read(thermal["ThermalMetrics"]["@odata.id"])["TemperatureReadingsCelsius"]
    (supply,) = bmc.members(f"{CHASSIS}/PowerSubsystem/PowerSupplies")
    assert bmc.read(bmc.read(supply)["Metrics"]["@odata.id"])["OutputPowerWatts"]


# All proofs


@pytest.mark.parametrize("name", sorted(PROOFS))
def test_a_polite_machine_has_no_fault(bmc, name):
    proof, _ = PROOFS[name]
    with pytest.raises((AssertionError, LookupError, OSError, ValueError, pytest.fail.Exception)):
        proof(bmc)


# Settings


def test_a_share_of_the_requests_is_concerned_reproducibly():
    def statuses():
        with running(machines=1, busy=0.3, seed=7) as simulator:
            bmc = Bmc(simulator.machines[0])
            return [bmc.get(TASKS).status_code for _ in range(60)]

    first = statuses()
    assert 8 < first.count(503) < 30
    assert first == statuses()


def test_faults_combine(bmc):
    bmc.set_faults(redirect_to_slash=True, pages={"size": 1}, gzip_unasked=True, not_utf8=True)
    path = f"{bmc.system}/EthernetInterfaces"
    assert_redirect(bmc.get(path), 308, f"{path}/")
    answer = bmc.get(f"{path}/")
    assert "gzip" == answer.headers["Content-Encoding"]
    document = json.loads(answer.content.decode(errors="replace"))
    assert (1, True) == (len(document["Members"]), "Members@odata.nextLink" in document)


def test_a_fault_ends_when_it_is_reset(bmc):
    bmc.set_faults(busy={"times": 1})
    assert [503, 200] == [bmc.get(TASKS).status_code for _ in range(2)]
    bmc.set_faults(busy={"times": 1})
    assert 503 == bmc.get(TASKS).status_code
    bmc.set_faults(busy=None)
    assert 200 == bmc.get(TASKS).status_code


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_settings_of_a_profile_are_valid(bmc, name):
    bmc.set_faults(profile=name)
    assert set(PROFILES[name]) & set(ROWS) == set(bmc.machine.faults.rude)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"busy": 2}, "busy: a share between 0 and 1, not 2"),
        ({"busy": "often"}, "busy: a number from 0 up, not 'often'"),
        ({"busy": {"share": 3}}, "busy.share: a share"),
        ({"busy": {"state": 503}}, "busy: unknown option 'state'; known: share, times, status"),
        ({"busy": {"status": "503"}}, "busy.status: a number"),
        ({"order_lost": {"orders": "power"}}, "order_lost.orders: a list of texts"),
        ({"profile": "polite"}, "profile: 'polite' is none of ami-like"),
        ({"politeness": True}, "unknown fault 'politeness'"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_with_its_name(bmc, settings, complaint):
    with pytest.raises(BadFault) as refused:
        bmc.set_faults(**settings)
    assert complaint in str(refused.value)


FILE = """
[all]
profile = "mine"
latency = 0.5
[machines."1-2"]
profile = ["dell-like", "mine"]
busy = false
[machines.2]
busy = 0.25
[profiles.mine]
busy = true
not_utf8 = 0.1
"""


def test_a_file_has_faults_of_all_and_of_single_machines(tmp_path):
    path = tmp_path / "faults.toml"
    path.write_text(FILE)
    for_all, for_one = fault_settings.read(path, 3)
    assert {"busy": True, "not_utf8": 0.1, "latency": 0.5} == for_all
    assert {1, 2} == set(for_one)
    assert {"busy": False, **PROFILES["dell-like"], "not_utf8": 0.1} == for_one[1]
    assert 0.25 == for_one[2]["busy"]
    faults = fault_settings.merge(for_all, for_one[1])
    assert "busy" not in faults.rude
    assert (0.1, 0.5) == (faults.rude["not_utf8"]["share"], faults.latency)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[all", "Expected"),
        ("[some]\na = 1", "[some] is none of [all], [machines.N], [profiles.NAME]"),
        ("[all]\nbusy = 7", "[all] busy: a share"),
        ("[machines.3]\nbusy = true", "[machines.3]: the machines are 0-2"),
        ("[machines.x]\nbusy = true", "[machines.x]: a number such as 3"),
        ("[machines.1]\nprofile = 'x'", "[machines.1] profile: 'x' is none of"),
        ("machines = 1", "[machines]: a table, not 1"),
    ],
)
def test_a_wrong_file_is_refused_with_its_entry(tmp_path, text, complaint):
    path = tmp_path / "faults.toml"
    path.write_text(text)
    with pytest.raises(BadFault) as refused:
        fault_settings.read(path, 3)
    assert str(refused.value).startswith(str(path))
    assert complaint in str(refused.value)
