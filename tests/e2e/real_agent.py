"""
The real ironic-python-agent, from PyPI, on a machine behind an independent BMC.

The machine is a folder: its disks are files, its programs are stand-ins. `real_agent_host` has the
code that runs inside of it. The agent erases every disk that it can open; `confined.py` keeps it from
the disks of this host.
"""

import asyncio
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from tests.e2e.bare_metal import MAC, UUID, Machine
from tests.support import debian
from tests.support.fleet import ROOT
from tests.support.ports import free_port
from tests.support.prerequisites import not_run

HOST = Path(__file__).with_name("real_agent_host")
REQUIREMENTS = ROOT / "requirements" / "agent.txt"
DISK_SIZE = 5 << 30  # sparse; agents take no smaller disk than 4 GiB
MODULES = ("confined.py", "devices.py", "file_machine.py", "mdadm.py")
ENTRY_POINTS = "[ironic_python_agent.hardware_managers]\na-file = file_machine:FileMachine\n"


def user():
    """Popen's arguments of the agent's user: `nobody` if the tests run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def interpreter():
    """
    Return a Python with the agent installed; it is created once per state of the requirements.

    Skips the test if that is impossible.
    """
    python = debian.provide(_any_python, "python3")
    if python is None:
        not_run("a Python that an ordinary user may start")
    key = f"{zlib.crc32(REQUIREMENTS.read_bytes() + python.encode()):08x}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if os.geteuid() == 0:  # other users cannot enter root's home
        cache = Path("/var/cache")
    venv = cache / "ingot-tests" / f"agent-{key}"
    cache.mkdir(parents=True, exist_ok=True)
    venv.parent.mkdir(mode=0o755, exist_ok=True)
    with open(venv.parent / "lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (venv / "ready").exists():
            shutil.rmtree(venv, ignore_errors=True)
            _install(python, venv)
            (venv / "ready").touch()
    return venv / "bin" / "python"


def _any_python():
    """A Python that the agent's user can start, with the modules to create an environment."""
    names = ("python3.11", "python3", "python3.12", "python3.13")
    paths = [sys._base_executable, *(shutil.which(name, path=os.defpath) for name in names)]
    question = "import ssl, sys, venv; sys.exit(sys.version_info < (3, 11))"
    for python in filter(None, paths):
        try:
            check = subprocess.run(
                [python, "-I", "-c", question], check=False, capture_output=True, cwd="/", **user()
            )
        except OSError:
            continue
        if check.returncode == 0:
            return python
    return None


def _install(python, venv):
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install"]
    for command in (
        [python, "-m", "venv", "--without-pip", venv],
        [*pip, "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", REQUIREMENTS],
    ):
        try:
            process = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=240, umask=0o022
            )
        except subprocess.TimeoutExpired:
            not_run("ironic-python-agent could not be installed in time")
        if process.returncode:
            not_run(f"ironic-python-agent could not be installed: {process.stderr[-300:]}")


class RealMachine(Machine):
    """
    A machine with the real agent, in `folder`, with two `disks`.

    `agent` is the running process. It inspects the machine when booted from a medium with that name,
    and reports to `reports_to`, by default the API. `lacks` names agent
    extensions to hide, as in an older ramdisk.
    """

    INSPECTS = (
        "inspection_callback_url = {}/v1/continue_inspection\ninspection_collectors = default\n"
    )

    reports_to = None
    lacks = ()

    def __init__(self):
        super().__init__()
        self._python = interpreter()
        self.folder = Path(tempfile.mkdtemp(prefix="ingot-machine-"))
        self.disks = [self.folder / "dev" / name for name in ("diska", "diskb")]
        (self.folder / "disk-size").write_text(str(DISK_SIZE))
        (self.folder / "dev").mkdir()
        for disk in self.disks:
            disk.touch()
            os.truncate(disk, DISK_SIZE)
        metadata = self.folder / "file_machine-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: file-machine\nVersion: 1\n"
        )
        (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
        for name in MODULES:
            shutil.copy(HOST / name, self.folder)
        self._make_programs()
        if owner := user():
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, owner["user"], owner["group"], follow_symlinks=False)

    def _make_programs(self):
        programs = self.folder / "bin"
        programs.mkdir()
        toolbox = self.folder / "toolbox"  # beside the modules that it imports
        source = (HOST / "toolbox.py").read_text()
        toolbox.write_text(f"#!{self._python} -SE\n{source}")
        toolbox.chmod(0o755)
        listed = subprocess.run(
            [self._python, toolbox, "--list"], check=True, capture_output=True, text=True,
        )  # fmt: skip
        for name in listed.stdout.split():
            (programs / name).symlink_to(toolbox)

    def configure(self):
        """Write the agent's configuration, in place of kernel parameters."""
        self.address = f"127.0.0.1:{free_port()}"
        port = self.address.rpartition(":")[2]
        (self.folder / "agent.conf").write_text(
            f"[DEFAULT]\napi_url = {self.api_url}\n"
            f"listen_host = 127.0.0.1\nlisten_port = {port}\n"
            f"advertise_host = 127.0.0.1\nadvertise_port = {port}\n"
            "tls_certificate_curve = p256\ndisk_wait_attempts = 0\n"
            "image_download_connection_retries = 0\n"
            "ignore_bootloader_failure = true\n"  # a file has no boot loader
            "debug = true\n"
            + (
                self.INSPECTS.format(self.reports_to or self.api_url)
                if "inspect" in self.medium
                else ""
            )
        )

    def program(self, name, *arguments):
        """Output of a program of the machine."""
        return subprocess.run(
            [self.folder / "bin" / name, *arguments], check=True, capture_output=True, text=True,
            env=self._environ(), **user(),
        ).stdout  # fmt: skip

    def log(self):
        """The log of all agents of the machine."""
        return (self.folder / "agent.log").read_text()

    def stop(self):
        super().stop()
        shutil.rmtree(self.folder)

    def _environ(self):
        return {
            "PATH": str(self.folder / "bin"),
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "MACHINE_LACKS": " ".join(self.lacks),
            "MACHINE_MAC": MAC,
            "MACHINE_RESET": f"{self.bmc_url}/redfish/v1/Systems/{UUID}/Actions/ComputerSystem.Reset",
            "MACHINE_QEMU_IMG": shutil.which("qemu-img") or "",
        }

    async def _boot(self):
        await asyncio.to_thread(self._start)

    def _start(self):
        self.configure()
        (self.folder / "assembled").unlink(missing_ok=True)  # no RAID volume is, at the start
        with (self.folder / "agent.log").open("ab") as log:
            self.agent = subprocess.Popen(
                [self._python, "confined.py", "--config-file", "agent.conf"],
                cwd=self.folder,
                env=self._environ(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **user(),
            )

    async def _halt(self):
        agent, self.agent = self.agent, None
        os.killpg(agent.pid, signal.SIGKILL)
        agent.wait()
