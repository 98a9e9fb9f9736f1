"""
Real boots from the DHCP and TFTP server of a conductor, with nothing else on the segment: firmware,
loaders and agent are real, and each machine is inspected in the end.
"""

import shutil
from contextlib import contextmanager

import pytest

from tests.e2e import real_boot
from tests.lab import ramdisk as lab_ramdisk
from tests.lab.tenant import network_grub
from tests.support.fleet import AGENTS, CALM, Fleet, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

#: Seconds for a boot to the agent on an emulated processor.
PATIENCE = 1500
LINE = "console=ttyS0 mitigations=off quiet ipa-disk-wait-attempts=1"
SCRIPT = """#!ipxe
kernel {root}/agent.kernel {line} ipa-insecure=1 ipa-inspection-callback-url={api}/v1/continue_inspection ipa-inspection-collectors=default initrd=ramdisk
initrd --name ramdisk {root}/agent.initramfs
boot
"""


class Site:
    """A fleet with the DHCP server of the segment."""

    def __init__(self, folder, segment, fleet, ramdisk):
        self.folder, self.segment, self.fleet, self._ramdisk = folder, segment, fleet, ramdisk
        self.root = f"http://{real_boot.HOST}:{fleet.environ['INGOT_DEPLOY_HTTP_PORT']}"

    def machine(self, firmware, number):
        return real_boot.plugged(
            self.folder / f"machine-{number}",
            self.segment,
            firmware,
            f"52:54:00:fe:00:{number:02x}",
        )

    def put_discovery(self):
        """Write the script for unknown machines, as networks.md has it."""
        folder = self.fleet.data / "httpboot"
        shutil.copy(self._ramdisk.kernel, folder / "agent.kernel")
        shutil.copy(self._ramdisk.initramfs, folder / "agent.initramfs")
        script = SCRIPT.format(root=self.root, api=self.fleet.url, line=LINE)
        (folder / "inspect.ipxe").write_text(script)

    def send(self, method, path, document):
        answer = self.fleet.http.request(method, f"{self.fleet.url}/v1/{path}", json=document)
        assert answer.ok, answer.text
        return answer.json()

    def enrol(self, machine, boot):
        """Enrol a machine with its port; return the node, manageable."""
        node = self.send("POST", "nodes", self._fields(machine, boot))["uuid"]
        self.send("POST", "ports", {"node_uuid": node, "address": machine.mac})
        return self.manage(node)

    def adopt(self, node, machine, boot):
        """Complete a discovered node; return it, manageable."""
        fields = self._fields(machine, boot)
        patch = [{"op": "add", "path": f"/{key}", "value": fields[key]} for key in fields]
        self.send("PATCH", f"nodes/{node}", patch)
        return self.manage(node)

    def manage(self, node):
        self.fleet.provision([node], "manage")
        self.fleet.await_state([node], "manageable")
        return node

    def _fields(self, machine, boot):
        return {
            "driver": "manual-management", "power_interface": "webhook", "boot_interface": boot,
            "inspect_interface": "agent", "driver_info": machine.driver_info(),
        }  # fmt: skip

    def inspect(self, node, machine):
        """Inspect a machine in-band; return its inventory."""
        self.fleet.provision([node], "inspect")
        state = until(lambda: self._end_state(node), "the inspection", PATIENCE)
        assert "manageable" == state, self.fleet.get(f"nodes/{node}")["last_error"]
        assert not machine.is_on
        return self.fleet.get(f"nodes/{node}/inventory")["inventory"]

    def _end_state(self, node):
        state = self.fleet.states()[node]
        return state if state in ("manageable", "inspect failed") else None

    def leases(self):
        """MAC address -> leased address."""
        path = self.fleet.data / "dhcp" / "leases"
        lines = path.read_text().splitlines() if path.exists() else ()
        return {line.split()[1]: line.split()[2] for line in lines if line[:1].isdigit()}


@pytest.fixture(scope="module")
def ramdisk():
    real_boot.require()
    return lab_ramdisk.build(print)


@contextmanager
def serving(folder, ramdisk, **settings):
    grub = network_grub(folder)
    loaders = {
        "undionly.kpxe": "/usr/lib/ipxe/undionly.kpxe", "snponly.efi": "/usr/lib/ipxe/snponly.efi",
        "pxelinux.0": "/usr/lib/PXELINUX/pxelinux.0", "bootx64.efi": str(grub),
        "ldlinux.c32": "/usr/lib/syslinux/modules/bios/ldlinux.c32",
    }  # fmt: skip
    environ = {
        **AGENTS, **CALM,
        "INGOT_AUTH_STRATEGY": "noauth", "INGOT_MY_IP": real_boot.HOST,
        "INGOT_DHCP_SERVER_BACKEND": "dnsmasq", "INGOT_DHCP_SERVER_PROGRAM": "/usr/sbin/dnsmasq",
        "INGOT_DHCP_SERVER_RANGES": f"{real_boot.HOST}00-{real_boot.HOST}10",
        "INGOT_CONDUCTOR_DEPLOY_KERNEL": f"file://{ramdisk.kernel}",
        "INGOT_CONDUCTOR_DEPLOY_RAMDISK": f"file://{ramdisk.initramfs}",
        "INGOT_CONDUCTOR_FILE_URL_ALLOWED_PATHS": str(ramdisk.kernel.parents[1]),
        "INGOT_CONDUCTOR_INSPECT_WAIT_TIMEOUT": str(PATIENCE),
        "INGOT_PXE_KERNEL_APPEND_PARAMS": LINE,
        "INGOT_PXE_LOADER_FILE_PATHS": ",".join(f"{name}:{path}" for name, path in loaders.items()),
    }  # fmt: skip
    with real_boot.Segment() as segment:
        environ["INGOT_DHCP_SERVER_INTERFACES"] = segment.interface
        options = ("--host", real_boot.HOST)
        with Fleet(folder, *options, conductors=1, **environ, **settings) as fleet:
            fleet.http.headers["X-OpenStack-Ironic-API-Version"] = "1.115"
            yield Site(folder, segment, fleet, ramdisk)


@pytest.fixture(scope="module")
def site(tmp_path_factory, ramdisk):
    with serving(tmp_path_factory.mktemp("boot"), ramdisk) as site:
        yield site


def test_an_unknown_machine_is_discovered_and_boots_as_a_known_one(tmp_path, ramdisk):
    folder = tmp_path / "discovery"
    folder.mkdir()
    root = f"http://{real_boot.HOST}"
    with (
        serving(
            folder, ramdisk, INGOT_DHCP_SERVER_UNKNOWN_MACHINES="answer",
            INGOT_DHCP_SERVER_UNKNOWN_BOOT_SCRIPT=f"{root}:6399/inspect.ipxe",
            INGOT_DEPLOY_HTTP_PORT="6399", INGOT_AUTO_DISCOVERY_ENABLED="true",
            INGOT_AUTO_DISCOVERY_DRIVER="manual-management",
        ) as site,
        site.machine("uefi", 1) as machine,
    ):  # fmt: skip
        site.put_discovery()
        machine.switch("on")
        until(lambda: site.fleet.get("nodes")["nodes"], "the discovery", PATIENCE)
        (port,) = until(lambda: site.fleet.get("ports", detail=True)["ports"], "its port")
        assert machine.mac == port["address"]
        machine.switch("off")
        address = site.leases()[machine.mac]
        node = site.adopt(port["node_uuid"], machine, "ipxe")
        inventory = site.inspect(node, machine)
        assert [(machine.mac, address)] == [
            (nic["mac_address"], nic["ipv4_address"]) for nic in inventory["interfaces"]
        ]


def test_an_unknown_machine_gets_nothing_until_it_is_known(site):
    with site.machine("bios", 2) as machine:
        machine.switch("on")
        until(lambda: "No more network devices" in machine.output(), "the end of iPXE", PATIENCE)
        machine.switch("off")
        assert {} == site.leases()
        inventory = site.inspect(site.enrol(machine, "ipxe"), machine)
        assert "bios" == inventory["boot"]["current_boot_mode"]
        assert {machine.mac} == site.leases().keys()


@pytest.mark.parametrize(
    ("firmware", "boot", "number"),
    [("bios", "pxe", 3), ("uefi", "pxe", 4), ("uefi", "http-ipxe", 5), ("uefi", "http", 6)],
)
def test_a_known_machine_boots_by_its_boot_interface(site, firmware, boot, number):
    with site.machine(firmware, number) as machine:
        inventory = site.inspect(site.enrol(machine, boot), machine)
        assert firmware == inventory["boot"]["current_boot_mode"]
        assert machine.mac in inventory["boot"]["pxe_interface"].replace("-", ":")
