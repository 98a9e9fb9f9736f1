"""
Ironic itself, from PyPI, in its own environment: installed once, a fresh service per run.
"""

import http.client
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

from app.process.parent_death import die_with_parent
from tests.support.fleet import ROOT
from tests.support.ports import free_port

#: Release to compare with; raise it together with the supported microversions.
RELEASE = "39.0.0"
#: Folder of its installation; git ignores it.
HOME = ROOT / ".compare"
#: kind of interface -> names enabled in both services, sorted
INTERFACES = {
    "bios": "fake,no-bios",
    "boot": "fake",
    "console": "fake,no-console",
    "deploy": "direct,fake",
    "firmware": "fake,no-firmware",
    "inspect": "fake,no-inspect",
    "management": "fake",
    "network": "noop",
    "power": "fake",
    "raid": "fake,no-raid",
    "rescue": "fake,no-rescue",
    "storage": "fake,noop",
    "vendor": "fake,no-vendor",
}
#: Name of the only conductor of each service.
CONDUCTOR = "rack-1"
PATIENCE = 120.0

_SETTINGS = """
[DEFAULT]
auth_strategy = noauth
host = {conductor}
my_ip = 127.0.0.1
rpc_transport = none
enabled_hardware_types = fake-hardware
{interfaces}
[api]
host_ip = 127.0.0.1
port = {port}
[database]
connection = {database}
sqlite_synchronous = False
[conductor]
sync_power_state_interval = 3600
check_allocations_interval = 5
[deploy]
http_root = {folder}/http
http_url = http://127.0.0.1:9
[inventory]
data_backend = database
[oslo_concurrency]
lock_path = {folder}/locks
[service_catalog]
endpoint_override = http://127.0.0.1:{port}
"""


class NotInstalled(Exception):
    """Ironic is not available; one line says why."""


def install() -> Path:
    """Install Ironic if necessary; return the directory of its programs. Raises NotInstalled."""
    programs = HOME / RELEASE / "bin"
    marker = HOME / RELEASE / "installed-with-pymysql"
    if marker.exists():
        return programs
    print(f"installing ironic {RELEASE} into {HOME / RELEASE}: some minutes", file=sys.stderr)
    pip = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (
        [sys.executable, "-m", "venv", HOME / RELEASE],
        [*pip, f"ironic=={RELEASE}", "pymysql"],
    ):
        if subprocess.run(command, check=False).returncode:
            raise NotInstalled(f"{command[-1]} could not be installed")
    marker.touch()
    return programs


class Ironic:
    """
    One Ironic, API and conductor in one process.

    database: URL of one that has Ironic's schema; by default, an empty one in `folder`.
    """

    def __init__(self, folder: Path, database: str | None = None) -> None:
        self.programs = install()
        self._folder = folder / "ironic"
        self._log = self._folder / "log"
        self.settings = self._folder / "ironic.conf"
        self._database = database

    def __enter__(self) -> Self:
        self._configure()
        if self._database is None:
            self._copy_schema()
        parent = os.getpid()
        self._process = subprocess.Popen(
            [self.programs / "ironic", "--config-file", self.settings],
            stdout=self._log.open("w"), stderr=subprocess.STDOUT, cwd=self._folder,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - no other thread yet
        )  # fmt: skip
        self.pid = self._process.pid
        try:
            self._await()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def create_schema(self) -> None:
        """Create the tables of Ironic in its database."""
        self._configure()
        subprocess.run(
            [self.programs / "ironic-dbsync", "--config-file", self.settings, "create_schema"],
            check=True, capture_output=True, cwd=self._folder,
        )  # fmt: skip

    def _copy_schema(self) -> None:
        """Copy a database with tables and no rows; it is created once per release."""
        template = HOME / f"{RELEASE}.db"
        if not template.exists():
            self.create_schema()
            shutil.copy(self._folder / "ironic.db", template)
        shutil.copy(template, self._folder / "ironic.db")

    def _configure(self) -> None:
        """Write its settings, with a free port."""
        for name in ("http", "locks"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.settings.write_text(
            _SETTINGS.format(
                conductor=CONDUCTOR,
                database=self._database or f"sqlite:///{self._folder}/ironic.db",
                port=port,
                folder=self._folder,
                interfaces="\n".join(
                    f"enabled_{kind}_interfaces = {names}" for kind, names in INTERFACES.items()
                ),
            )
        )

    def _await(self) -> None:
        """Wait until its conductor is alive and has loaded its driver."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self._process.poll() is None:
            try:
                connection = http.client.HTTPConnection(self.url.rpartition("/")[2], timeout=30)
                connection.request("GET", "/v1/drivers")
                if b"fake-hardware" in connection.getresponse().read():
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise NotInstalled(f"Ironic did not start:\n{self._log.read_text()[-3000:]}")
