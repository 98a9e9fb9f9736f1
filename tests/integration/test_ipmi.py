"""The IPMI driver against pyghmi's BMC server, with ipmitool as a second client."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from drivers.core.bmc import Bmcs
from drivers.core.errors import HardwareError, LoginRefused, NotSupported, Unreachable
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, SOFT_OFF, SOFT_REBOOT
from drivers.core.steps import Done
from drivers.core.target import Target
from drivers.ipmi.credentials import Credentials
from drivers.ipmi.management import IpmiManagement
from drivers.ipmi.power import IpmiPower
from drivers.ipmi.sessions import Sessions, sessions
from tests.support import debian
from tests.support.fleet import PATIENCE, until
from tests.support.ports import free_port
from tests.support.prerequisites import not_run
from tests.support.processes import alive, children
from tests.unit.drivers.ipmi.sensor_records import full_record

ROOT = Path(__file__).parents[2]
SECRET = "tr0ub4dor&3"


@pytest.fixture(scope="session")
def ipmitool() -> str:
    """Path of the program, from the system's packages if necessary."""
    path = debian.provide(lambda: shutil.which("ipmitool"), "ipmitool")
    if path is None:
        not_run("ipmitool")
    return path


@contextmanager
def simulator(*arguments: str):
    """Start a process with simulated BMCs: (its PID, their ports)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "drivers.simulator.ipmi", "--password", SECRET, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        count = int(arguments[arguments.index("--count") + 1]) if "--count" in arguments else 1
        yield process.pid, [int(process.stdout.readline()) for _ in range(count)]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def port():
    with simulator() as (_, ports):
        yield ports[0]


@pytest.fixture
def dead_port():
    """Port with a listener that never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        yield silent.getsockname()[1]


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left():
    yield
    sessions().close()


def target(
    port: int, client: str = "pyghmi", timeout: float = 10.0, suites=(), **driver_info
) -> Target:
    return Target(
        "uuid",
        "node",
        driver=SimpleNamespace(management=management()),
        driver_info={
            "ipmi_address": "127.0.0.1",
            "ipmi_port": port,
            "ipmi_username": "admin",
            "ipmi_password": SECRET,
            "ipmi_client": client,
            **driver_info,
        },
        options={
            "ipmi": {
                "client": "pyghmi",
                "command_timeout": timeout,
                "disable_boot_timeout": True,
                "cipher_suite_versions": suites,
                "min_command_interval": 0,
            },
            "bmc": {"denied_networks": (), "allowed_networks": ()},
            "deploy": {"default_boot_mode": "bios"},
            "conductor": {"soft_power_off_timeout": 600, "power_state_change_timeout": 60},
        },
    )


def power() -> IpmiPower:
    interface = IpmiPower()
    interface.bmcs = Bmcs()
    return interface


def management() -> IpmiManagement:
    interface = IpmiManagement()
    interface.bmcs = Bmcs()
    return interface


def ipmitool_output(port: int, *arguments: str) -> str:
    """Run ipmitool, and return its output."""
    return subprocess.run(
        [
            "ipmitool",
            "-I",
            "lanplus",
            "-H",
            "127.0.0.1",
            "-p",
            str(port),
            "-U",
            "admin",
            "-E",
            *arguments,
        ],
        env={**os.environ, "IPMI_PASSWORD": SECRET},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout


@pytest.mark.parametrize("client", ["pyghmi", "ipmitool"])
def test_ipmitool_reads_the_commanded_power_state(client, port, ipmitool):
    node, interface = target(port, client), power()
    assert interface.get_power_state(node) == POWER_OFF
    interface.order(node, POWER_ON)
    assert ipmitool_output(port, "power", "status") == "Chassis Power is on\n"
    assert interface.get_power_state(node) == POWER_ON
    interface.order(node, SOFT_OFF)
    assert ipmitool_output(port, "power", "status") == "Chassis Power is off\n"


@pytest.mark.parametrize("client", ["pyghmi", "ipmitool"])
def test_ipmitool_reads_the_boot_device(client, port, ipmitool):
    node, interface = target(port, client), management()
    texts = {
        "pxe": "Force PXE",
        "disk": "Force Boot from default Hard-Drive",
        "safe": "Force Boot from default Hard-Drive, request Safe-Mode",
        "cdrom": "Force Boot from CD/DVD",
        "bios": "Force Boot into BIOS Setup",
    }
    assert set(texts) == set(interface.supported_boot_devices(node))
    for number, (device, text) in enumerate(texts.items()):
        persistent = bool(number % 2)
        interface.set_boot_device(node, device, persistent)
        output = ipmitool_output(port, "chassis", "bootparam", "get", "5")
        assert f"Boot Device Selector : {text}\n" in output
        assert (
            f"Options apply to {'all future boots' if persistent else 'only next boot'}" in output
        )
        expected = {"boot_device": device, "persistent": persistent}
        assert expected == interface.get_boot_device(node)


def test_a_boot_device_set_by_ipmitool_is_read(port, ipmitool):
    ipmitool_output(port, "chassis", "bootdev", "cdrom", "options=persistent,efiboot")
    expected = {"boot_device": "cdrom", "persistent": True}
    assert expected == management().get_boot_device(target(port))


def test_a_boot_device_for_one_boot_is_cleared_after_it(port):
    node, interface = target(port), management()
    interface.set_boot_device(node, "pxe")
    power().order(node, POWER_ON)
    assert interface.get_boot_device(node)["boot_device"] is None


def test_a_soft_reboot_powers_the_machine_on_and_clears_its_agent(port):
    node, interface = target(port), power()
    interface.order(node, POWER_ON)
    off = interface.change(node, SOFT_REBOOT)
    assert {"power_state": POWER_OFF, "agent": None} == node.reports
    assert Done() == interface.change(replace(node, progress=off.progress), SOFT_REBOOT)
    assert node.reports == {"power_state": POWER_ON, "agent": None}


@pytest.mark.parametrize("suite", [None, 3])
def test_a_bmc_that_answers_every_cipher_suite_in_sha1_is_supported(suite):
    """virtualbmc does so; pyghmi alone cannot log in to it."""
    with simulator("--lax") as (_, (port,)):
        assert power().get_power_state(target(port, ipmi_cipher_suite=suite)) == POWER_OFF


def test_the_cipher_suite_that_the_bmc_supports_is_found_and_kept():
    interface = power()
    with simulator("--lax") as (_, (port,)):
        for _ in range(2):
            assert interface.get_power_state(target(port, suites=("3", "17"))) == POWER_OFF
    assert 3 == interface.bmcs.get(f"127.0.0.1:{port}").connection


@pytest.mark.parametrize("client", ["pyghmi", "ipmitool"])
@pytest.mark.parametrize(
    "wrong",
    [{"ipmi_password": "wr0ngwr0ng"}, {"ipmi_username": "nobody"}],
    ids=["password", "user"],
)
def test_a_wrong_login_is_refused_at_once_and_the_right_one_works_after_it(
    client, wrong, port, request
):
    if client == "ipmitool":
        request.getfixturevalue("ipmitool")
    started = time.monotonic()
    with pytest.raises(LoginRefused, match=f"IPMI login to BMC 127.0.0.1:{port}") as raised:
        power().get_power_state(target(port, client, timeout=60, **wrong))
    assert time.monotonic() - started < 20
    assert not {SECRET, "wr0ngwr0ng"} & set(str(raised.value).split())
    assert power().get_power_state(target(port, client)) == POWER_OFF


def test_a_command_to_a_dead_bmc_ends_at_its_deadline_while_others_answer(port, dead_port):
    live, interface = target(port), power()
    interface.get_power_state(live)
    with ThreadPoolExecutor(8) as pool:
        started = time.monotonic()
        dead = [
            pool.submit(
                interface.get_power_state,
                target(dead_port, timeout=4, ipmi_address=f"127.0.0.{n}"),
            )
            for n in range(1, 6)
        ]
        answers = [interface.get_power_state(live) for _ in range(20)]
        assert not any(future.done() for future in dead)
        assert {POWER_OFF} == set(answers)
        for future in dead:
            with pytest.raises(Unreachable):
                future.result(timeout=PATIENCE)
        assert time.monotonic() - started < 4 * len(dead), "one has waited for the other"


@pytest.mark.parametrize("client", ["pyghmi", "ipmitool"])
def test_a_command_to_a_bmc_that_becomes_silent_ends_at_the_deadline_and_a_later_one_succeeds(
    client, request
):
    """pyghmi alone waits 29 s for a BMC that dies during a session."""
    if client == "ipmitool":
        request.getfixturevalue("ipmitool")
    with simulator() as (pid, (port,)):
        node, interface = target(port, client, timeout=1.0), power()
        interface.get_power_state(node)
        os.kill(pid, signal.SIGSTOP)
        started = time.monotonic()
        with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
            interface.get_power_state(node)
        assert time.monotonic() - started < 15
        os.kill(pid, signal.SIGCONT)
        assert interface.get_power_state(target(port, client)) == POWER_OFF


@pytest.mark.parametrize("victim", ["session", "nursery"])
def test_a_request_survives_the_death_of_its_session_process(victim):
    with simulator() as (simulator_pid, (port,)):
        node, interface = target(port), power()
        sessions().close()  # so that there is one session process
        interface.get_power_state(node)
        nursery = sessions().pid
        (session,) = children(nursery)
        os.kill(simulator_pid, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(interface.get_power_state, node)
            until(lambda: interface.bmcs.get(f"127.0.0.1:{port}")._busy)
            os.kill(session if victim == "session" else nursery, signal.SIGKILL)
            until(lambda: sessions().pid and [p for p in children(sessions().pid) if p != session])
            os.kill(simulator_pid, signal.SIGCONT)
            assert waiting.result(timeout=PATIENCE) == POWER_OFF
        until(lambda: not alive(session))
        assert (victim == "nursery") == (sessions().pid != nursery)


def test_killed_idle_processes_are_replaced(port):
    node, interface = target(port), power()
    interface.get_power_state(node)
    os.kill(sessions().pid, signal.SIGKILL)
    assert interface.get_power_state(node) == POWER_OFF


def test_the_number_of_open_sessions_is_limited():
    ours = Sessions(keep=2)
    try:
        with simulator("--count", "4") as (_, ports):
            for port in ports:
                bmc = Credentials("127.0.0.1", port, "admin", SECRET)
                assert (0, bytes(3)) == ours.raw(bmc, 0, 1, b"", time.monotonic() + 10)
            until(lambda: len(children(ours.pid)) == 2)
    finally:
        ours.close()


def test_many_threads_share_one_governor_and_one_session_per_bmc():
    sessions().close()
    with simulator("--count", "3") as (_, ports), ThreadPoolExecutor(6) as pool:
        interface = power()
        nodes = [target(port) for port in ports] * 10
        assert list(pool.map(interface.get_power_state, nodes)) == [POWER_OFF] * 30
        assert len(children(sessions().pid)) == 3


def test_a_killed_conductor_leaves_no_session_process(port):
    program = (
        "import time\n"
        "from drivers.ipmi.credentials import Credentials\n"
        "from drivers.ipmi.sessions import sessions\n"
        f"bmc = Credentials('127.0.0.1', {port}, 'admin', {SECRET!r})\n"
        "sessions().raw(bmc, 0, 1, b'', time.monotonic() + 10)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        try:
            parent.stdin.write(program)
            parent.stdin.close()
            assert parent.stdout.readline() == "ready\n"
            (nursery,) = children(parent.pid)
            family = [nursery, *children(nursery)]
            assert len(family) == 2
        finally:
            parent.kill()
    until(lambda: not any(alive(pid) for pid in family))


@pytest.mark.parametrize("client", ["pyghmi", "ipmitool"])
def test_the_password_is_in_no_command_line_and_no_message(client, dead_port, request):
    if client == "ipmitool":
        request.getfixturevalue("ipmitool")
    command_lines: set[str] = set()
    stop = threading.Event()

    def look():
        while not stop.is_set():
            family = children(os.getpid())
            for pid in [*family, *(child for parent in family for child in children(parent))]:
                try:
                    command_lines.add(
                        Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                    )
                except OSError:
                    continue

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        with pytest.raises(HardwareError) as raised:
            power().get_power_state(target(dead_port, client, timeout=1.0))
    finally:
        stop.set()
        watcher.join()
    expected = "ipmitool -v" if client == "ipmitool" else "ipmi/child.py"
    assert [line for line in command_lines if expected in line]
    assert not [line for line in command_lines if SECRET in line]
    assert SECRET not in str(raised.value)


LAN = """
name "bmc"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 {port}
  priv_limit admin
  allowed_auths_admin none md2 md5 straight
  guid a123456789abcdefa123456789abcdef
endlan
user 1 true "" "none" user 10 none md2 md5 straight
user 2 true "admin" "{password}" admin 10 none md2 md5 straight
"""
CONTROLLER = """
mc_setbmc 0x20
mc_add 0x20 0 has-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sensor_add 0x20 0 1 0x01 0x01
sensor_set_value 0x20 0 1 45 0
sensor_set_event_support 0x20 0 1 enable scanning per-state {none} {none} {none} {none}
sensor_add 0x20 0 2 0x04 0x01
sensor_set_value 0x20 0 2 100 0
sensor_set_event_support 0x20 0 2 enable scanning per-state {none} {none} {none} {none}
main_sdr_add 0x20 {temperature}
main_sdr_add 0x20 {fan}
sel_enable 0x20 100 0x0a
mc_enable 0x20
"""


@pytest.fixture
def openipmi(tmp_path):
    """Port of a BMC by OpenIPMI's simulator, which has two sensors."""
    program = debian.provide(lambda: shutil.which("ipmi_sim"), "openipmi")
    if program is None:
        not_run("ipmi_sim")
    port = free_port(socket.SOCK_DGRAM)
    records = {
        "temperature": full_record(1, "CPU Temp", 1),
        "fan": full_record(2, "Fan 1", 2, unit=18, kind=4, m=60),
    }
    listed = {
        name: " ".join(f"0x{byte:02x}" for byte in record) for name, record in records.items()
    }
    (tmp_path / "lan").write_text(LAN.format(port=port, password=SECRET))
    (tmp_path / "controller").write_text(CONTROLLER.format(none="0" * 15, **listed))
    process = subprocess.Popen(
        [program, "-n", "-c", tmp_path / "lan", "-f", tmp_path / "controller", "-s", tmp_path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield port
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("client", ["pyghmi", "ipmitool"])
def test_sensors_of_a_bmc_of_another_project_are_read(openipmi, client, ipmitool):
    node = target(openipmi, client, timeout=30.0, ipmi_cipher_suite=3)
    until(lambda: _answers(node), "its start")
    sensors = {sensor["name"]: sensor for sensor in management().sensors(node)}
    assert {"CPU Temp": 45.0, "Fan 1": 6000.0} == {
        name: sensor["reading"] for name, sensor in sensors.items()
    }
    assert {"ok"} == {sensor["health"] for sensor in sensors.values()}


def _answers(node):
    try:
        return power().get_power_state(node)
    except HardwareError:
        return None


def test_the_password_is_rotated_and_verified_by_a_new_session(port):
    it = target(port)
    interface = it.driver.management
    ordered = interface.rotate_bmc_password(it)
    candidates = it.reports["driver_internal_info"]["password_rotation"]
    following = replace(
        target(port), progress=ordered.progress,
        driver_internal_info={"password_rotation": candidates},
    )  # fmt: skip
    assert Done({"rotated": ["ipmi_password"]}) == interface.rotate_bmc_password(following)
    new = following.reports["login_passwords"]["ipmi_password"]
    assert candidates["new"] == new != SECRET
    assert POWER_OFF == power().get_power_state(target(port, ipmi_password=new))
    with pytest.raises(LoginRefused):
        interface.rotate_bmc_password(target(port, ipmi_password="wrong"))


def test_the_password_is_never_an_argument_of_a_program(port):
    it = target(port, "ipmitool")
    with pytest.raises(NotSupported, match="ipmi_client"):
        it.driver.management.rotate_bmc_password(it)
