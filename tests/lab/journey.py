"""
The life of one machine, driven by the `baremetal` command and checked on the machine itself.

A phase succeeds only if the console or the disk confirms it.
"""

import json
import os
import signal
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.lab import console, images, tenant
from tests.lab.ramdisk import run
from tests.support.fleet import until

#: Seconds for the slowest phase.
PATIENCE = 600
PASSWORD = "open-sesame"
#: Devices that firmware tries before the disk when the tenant reboots.
BEFORE_THE_DISK = ("cdrom", "pxe")
#: Offsets of the data that cleaning must remove from the disk, in MiB.
SOILED = (1, 200, 450)


class Journey:
    """A node and its machine, in one phase after the other."""

    def __init__(self, service, hypervisor, machine, systems, say, fast=False):
        self.service, self.hypervisor = service, hypervisor
        self.machine, self.systems = machine, systems
        self.fast = fast  # fast track: its agent keeps running
        self.node = machine.name
        self.times = {}  # phase -> seconds
        self.doing = ""  # the present phase
        # kernel arguments: address of the agent
        self.agent = f"ipa-advertise-host=127.0.0.1 ipa-advertise-port={machine.agent_port}"
        if machine.wire is not None:
            self.agent = ""
        self._say = say

    @contextmanager
    def phase(self, name):
        self.doing, started = name, time.monotonic()
        yield
        self.times[name] = time.monotonic() - started
        self._say(f"{self.node}: {name}, {self.times[name]:.0f} s")
        self.doing = ""

    def ask(self, verb, *options, phase=None):
        """Request a verb, and wait for its target state."""
        with self.phase(phase or verb):
            self.service.baremetal("node", verb, self.node, "--wait", PATIENCE, *options)

    def set(self, *fields):
        """Set fields of the node, as options of the command."""
        self.service.baremetal("node", "set", self.node, *fields)

    def show(self):
        return self.service.get(f"nodes/{self.node}")

    # phases

    def enrol(self, driver, interfaces, driver_info):
        info = [f"--driver-info={name}={value}" for name, value in driver_info.items()]
        kinds = [f"--{kind}-interface={name}" for kind, name in interfaces.items()]
        # agents refuse disks below 4 GiB without a hint
        properties = (
            f"--property=capabilities=boot_mode:{self.machine.firmware}",
            f'--property=root_device={{"serial": "{self.machine.name}"}}',
        )
        self.service.baremetal(
            "node", "create", f"--name={self.node}", f"--driver={driver}",
            *properties, *kinds, *info,
        )  # fmt: skip
        uuid = self.show()["uuid"]
        self.service.baremetal("port", "create", self.machine.mac, "--node", uuid)

    def expect_on_console(self, words, since=0):
        output = self.machine.output(since)
        assert words in output, f"{words!r} is not on the console:\n{output[-3000:]}"

    def manage(self):
        self.soil()  # while the machine is off
        self.ask("manage")

    def inspect(self):
        self.ask("inspect")
        properties = self.show()["properties"]
        assert properties["cpu_arch"] == "x86_64", properties
        inventory = self.service.get(f"nodes/{self.node}/inventory")["inventory"]
        macs = [interface["mac_address"] for interface in inventory["interfaces"]]
        assert self.machine.mac in macs, macs

    def soil(self):
        """Write data to the disk that cleaning must remove."""
        for place in SOILED:
            order = f"write -P 0xa5 {place}M 1M"
            run("qemu-io", "-f", "qcow2", "-c", order, str(self.machine.disk))

    def provide(self):
        self.ask("provide", phase="provide: clean")
        self.is_blank()

    def is_blank(self):
        """Check that the disk is all zeros."""
        with tempfile.TemporaryDirectory() as folder:
            blank = f"{folder}/blank"
            size = json.loads(
                run("qemu-img", "info", "-U", "--output=json", str(self.machine.disk))
            )["virtual-size"]
            run("qemu-img", "create", "-q", "-f", "raw", blank, str(size))
            run(
                "qemu-img", "compare", "-U", "-f", "qcow2", "-F", "raw",
                str(self.machine.disk), blank,
            )  # fmt: skip

    def image(self, system):
        """URL of a system's image, marked with this machine's name."""
        return f"{self.systems[system][0]}?{self.node}"

    def deploy(self, system, verb="deploy", checksum=None):
        """Deploy, and wait until the tenant's system confirms its config drive on the console."""
        self.set(
            f"--instance-info=image_source={self.image(system)}",
            f"--instance-info=image_os_hash_value={checksum or self.systems[system][1].sha256}",
            "--instance-info=image_os_hash_algo=sha256",
        )
        mark, name = self.machine.mark(), f"{system}-on-{self.node}"
        with tempfile.TemporaryDirectory() as folder:
            drive = Path(folder, "openstack/latest")
            drive.mkdir(parents=True)
            (drive / "meta_data.json").write_text(json.dumps({"uuid": name, "name": name}))
            self.ask(verb, "--config-drive", folder)
        self.tenant(system, mark, f'"uuid": "{name}"')

    def tenant(self, system, mark, *texts, phase="tenant up"):
        """Wait for the tenant's system; it must print these words."""
        with self.phase(phase):
            until(
                lambda: "TENANT ready" in self.machine.output(mark), "the tenant's system", PATIENCE
            )
        for words in (f"TENANT system={system} firmware={self.machine.firmware}", *texts):
            self.expect_on_console(words, mark)

    def reboot_as_tenant(self, system):
        """
        Reboot the machine past the service, with CD and network before the disk.

        The tenant's system must start, and nothing of the service's before it: first after a power
        cycle, then after a reset.
        """
        hypervisor, machine = self.hypervisor, self.machine
        for kind, reboot in (
            ("power cycle", lambda: hypervisor.restart(machine, *BEFORE_THE_DISK, "default")),
            ("reset", lambda: hypervisor.reset(machine)),
        ):
            mark = machine.mark()
            reboot()
            self.tenant(system, mark, phase=f"tenant's {kind}")
            assert "RAMDISK" not in machine.output(mark), f"{self.node} booted the agent"

    def enable_console(self):
        """Have the service open the serial line, and keep its output."""
        self.set("--console-interface", "ipmitool-socat")
        self.service.baremetal("node", "console", "enable", self.node)
        until(lambda: self.show()["console_enabled"], "the console", 60)

    def console_history(self, *options):
        return console.history(self.service.url, self.node, *options)

    def log_in_as_tenant(self):
        """Log in to the tenant's system on the serial console, and have it compute something."""
        with self.phase("serial login"), console.Console(self.service.url, self.node) as line:
            position = 0
            for keys, answer in (
                ("\r", "login:"), ("root\r", "Password:"), (f"{tenant.PASSWORD}\r", "# "),
                ("echo tenant-$((6 * 7))\r", "tenant-42"), ("exit\r", "login:"),
            ):  # fmt: skip
                line.type(keys)
                position = line.expect(answer, position)
            assert "tenant-42" in self.console_history()

    def boot_in_vain(self):
        """Boot an agent whose kernel panics: the history has its last words, also after the abort."""
        arguments = f"%default% rdinit=/nowhere panic=0 {self.agent}"
        self.set(
            "--driver-info=fast_track=False", f"--driver-info=kernel_append_params={arguments}"
        )
        self.ask("manage")
        self.service.baremetal("node", "power", "off", self.node)
        until(lambda: not self.hypervisor.power(self.machine), "the end of the agent", PATIENCE)
        steps = json.dumps([{"interface": "deploy", "step": "erase_devices_metadata"}])
        with self.phase("failed boot"):
            self.service.baremetal("node", "clean", self.node, "--clean-steps", steps)
            until(lambda: "Kernel panic" in self.console_history(), "the panic in it", PATIENCE)
            self.service.baremetal("node", "abort", self.node)
            self.is_in("clean failed")
            assert "Kernel panic" in self.console_history("--operation", "last")

    def rebuild(self, system):
        self.deploy(system, "rebuild")

    def rescue(self):
        mark = self.machine.mark()
        self.ask("rescue", "--rescue-password", PASSWORD)
        until(lambda: "rescue:" in self.machine.output(mark), "the rescue's password", 60)

    def unrescue(self, system):
        mark = self.machine.mark()
        self.ask("unrescue")
        self.tenant(system, mark)

    def undeploy(self, state="available"):
        """Undeploy; the node must end in this state, with a blank disk."""
        with self.phase("undeploy: clean"):
            # without --wait: the command takes any state but `available` as an error
            self.service.baremetal("node", "undeploy", self.node)
            self.is_in(state)
        self.is_blank()
        assert self.fast == self.hypervisor.power(self.machine), "the power state is wrong"

    def retire(self):
        """Retire the node while the tenant has it: after the cleaning it is not available."""
        self.set("--retired", "--retired-reason", "end of the lab")

    def is_in(self, state):
        provision_state = self.settled()["provision_state"]
        assert state == provision_state, f"{self.node} is in {provision_state!r}, not {state!r}"

    def again(self):
        """Take the node from a failed deployment to available."""
        self.ask("undeploy", phase="undeploy: clean")

    # faults

    def settled(self):
        """Wait until no operation is under way; return the node."""

        def lasts():
            node = self.show()
            failed = "failed" in node["provision_state"]
            under_way = node["reservation"] or (node["target_provision_state"] and not failed)
            return None if under_way else node

        return until(lasts, "a state that lasts", PATIENCE, between=2)

    def once_at(self, label, act):
        """
        Call `act` once the node is at a step.

        Returns a function to call afterwards: it returns the result of `act`, and fails if `act`
        was never called.
        """
        happened = []
        over = threading.Event()

        def watch():
            while not over.wait(0.3):
                if self.service.step(self.node) == label:
                    over.wait(2)  # until the agent runs the step, too
                    happened.append(act())
                    return

        thread = threading.Thread(target=watch)
        thread.start()

        def result():
            over.set()
            thread.join()
            assert happened, f"{self.node} was never at {label}"
            return happened[0]

        return result

    def kill_conductor(self):
        """Kill the node's conductor (SIGKILL); return its name."""
        name, pid = self.service.conductor(self.node)
        os.kill(pid, signal.SIGKILL)
        self._say(f"{self.node}: killed its conductor {name}")
        return name


def fetched(journal, journey, system):
    """Number of times that a machine's agent downloaded the image of a system."""
    return images.whole(journal, urlsplit(journey.image(system)))
