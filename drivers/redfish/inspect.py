"""
Redfish: out-of-band inspection. The BMC tells what the machine is made of, on or off.
"""

from drivers.core.kinds import Inspect
from drivers.core.target import Target
from drivers.inspection.process import process
from drivers.redfish import client, inventory
from drivers.redfish.interface import Redfish

#: What is always made of it, before the hooks that settings name.
HOOKS = ("memory", "cpus", "root-device", "boot-mode")


class RedfishInspect(Redfish, Inspect):
    """Processors, memory, disks and network interfaces, as the BMC lists them."""

    def inspect_hardware(self, target: Target) -> None:
        with client.turn(target, self.bmcs) as bmc:
            found = inventory.read(bmc)
        hooks = (*HOOKS, *target.options["redfish"]["inspection_hooks"])
        process(target, hooks, found, {})
