"""
Redfish: out-of-band inspection, of machines that are on or off.
"""

from drivers.core.kinds import Inspect
from drivers.core.target import Target
from drivers.inspection.process import process
from drivers.redfish import client, inventory
from drivers.redfish.interface import Redfish

#: Hooks that always run, before those of `[redfish]inspection_hooks`.
HOOKS = ("memory", "cpus", "root-device", "boot-mode")


class RedfishInspect(Redfish, Inspect):
    """Inspection of processors, memory, disks and network interfaces that the BMC lists."""

    def inspect_hardware(self, target: Target) -> None:
        with client.turn(target, self.bmcs) as bmc:
            found = inventory.read(bmc)
        hooks = (*HOOKS, *target.options["redfish"]["inspection_hooks"])
        process(target, hooks, found, {})
