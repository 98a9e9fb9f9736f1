"""The service in the lab: `ingot up` with two conductors, and the real command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import requests

from tests.lab.hypervisor import HOST
from tests.lab.ramdisk import run
from tests.lab.tenant import network_grub
from tests.support.fleet import ROOT, until
from tests.support.ports import free_port

#: Addresses as the machines see them, and settings that keep phases short: agents wait for disks
#: of 4 GiB, which the machines lack, before their first heartbeat.
SETTINGS = """
[DEFAULT]
log_format = "text"
my_ip = "{host}"

[conductor]
deploy_kernel = "file://{kernel}"
deploy_ramdisk = "file://{initramfs}"
deploy_callback_timeout = {patience}
clean_callback_timeout = {patience}
rescue_callback_timeout = {patience}
inspect_wait_timeout = {patience}
file_url_allowed_paths = ["{images}"]
fetch_denied_networks = []
verify_ca_allowed_paths = ["{folder}", "{images}"]
heartbeat_interval = 1
heartbeat_timeout = 6
lease_ttl = 4
sync_power_state_interval = 30

[agent]
verify_ca = "False"
denied_networks = []

[bmc]
denied_networks = []

[deploy]
served_group = "nogroup"
default_boot_mode = "bios"
http_root = "{folder}/http"
http_url = "http://{host}:{http}"
http_port = {http}
external_http_url = "http://127.0.0.1:{http}"
external_callback_url = "http://{host}:{api}"
erase_devices_metadata_priority = 0
erase_devices_priority = 10
shred_random_overwrite_iterations = 0

[pxe]
tftp_root = "{folder}/tftp"
loader_file_paths = {{ "bootx64.efi" = "{grub}" }}
kernel_append_params = "console=ttyS0 nofb mitigations=off quiet ipa-disk-wait-attempts=1"

[redfish]
kernel_append_params = "console=ttyS0 nofb mitigations=off quiet ipa-disk-wait-attempts=1"
"""


class Refused(Exception):
    """The command line ended with an error; its message."""


class Service:
    """`ingot up` in a folder."""

    def __init__(self, folder, processes, ramdisk):
        self.folder, self._processes, self._ramdisk = folder, processes, ramdisk
        self.http, self.api = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.api}"
        self._pids = folder / "up.json"
        self._up = self._files = None
        # URL that DHCP offers to machines
        self.bootfile = f"http://{HOST}:{self.http}/boot.ipxe"

    def start(self, patience=600):
        """Start the service, and wait until it is ready. patience: seconds to wait for agents."""
        config = self.folder / "ingot.toml"
        config.write_text(
            SETTINGS.format(
                kernel=self._ramdisk.kernel, initramfs=self._ramdisk.initramfs,
                images=self._ramdisk.kernel.parents[1], folder=self.folder, host=HOST,
                http=self.http, api=self.api, patience=patience,
                grub=network_grub(self.folder),
            )
        )  # fmt: skip
        self._pids.unlink(missing_ok=True)
        ingot = (sys.executable, "-m", "workers.cli")
        # its URL has the machines' address, so `ingot up` takes it for an external server
        self._files = self._processes.start("files", *ingot, "files", "--config", config, cwd=ROOT)
        self._up = self._processes.start(
            "ingot", *ingot, "up", "--config", config, "--data-dir", self.folder / "ingot",
            "--host", "127.0.0.1", "--port", self.api, "--conductors", 2,
            "--pidfile", self._pids, cwd=ROOT,
        )  # fmt: skip
        until(self._ready, "the start of the service", 90)

    def _ready(self):
        if self._up.poll() is not None:
            log = (self._processes.logs / "ingot.log").read_text()
            raise RuntimeError(f"the service did not start: {log[-2000:]}")
        try:
            return len(self.get("conductors")["conductors"]) == 2
        except requests.RequestException:
            return False

    def stop(self):
        for process in (self._up, self._files):
            process.terminate()
            process.wait(60)

    def dhcp_config(self, boot, addresses):
        """Configuration of dnsmasq that the service prints. addresses: their range."""
        command = (sys.executable, "-m", "workers.cli", "dhcp-config", "--boot", boot)
        about = ("--range", addresses, "--config", self.folder / "ingot.toml")
        return run(*command, *map(str, about), cwd=ROOT).decode()

    def conductor(self, node):
        """(name, pid) of the conductor that owns a node."""
        name = self.get(f"nodes/{node}")["conductor"]
        return name, json.loads(self._pids.read_text())["conductors"][name]

    def get(self, path):
        headers = {"X-OpenStack-Ironic-API-Version": "latest"}
        with requests.Session() as session:
            session.trust_env = False
            answer = session.get(f"{self.url}/v1/{path}", headers=headers, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def baremetal(self, *words):
        """Output of the `baremetal` command, decoded. Raises Refused."""
        command = [Path(sys.executable).with_name("baremetal"), *map(str, words)]
        shows = words[1] in ("create", "show", "list")
        result = subprocess.run(
            [*command, "-f", "json"] if shows else command, check=False, capture_output=True,
            text=True, timeout=900, env={**os.environ, "OS_AUTH_TYPE": "none",
            "OS_ENDPOINT": self.url, "OS_BAREMETAL_API_VERSION": "latest"},
        )  # fmt: skip
        if result.returncode:
            raise Refused(result.stderr.strip())
        return json.loads(result.stdout) if shows else result.stdout

    def step(self, node):
        """Label of a node's current step; None without one."""
        operations = self.get(f"nodes/{node}/operations")["operations"]
        if not operations or operations[0]["finished_at"]:
            return None
        operation = self.get(f"operations/{operations[0]['uuid']}")
        running = (step for step in operation["steps"] if step["state"] in ("running", "waiting"))
        return next((f"{step['interface']}.{step['step']}" for step in running), None)
