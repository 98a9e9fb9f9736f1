"""
Redfish: out-of-band inspection, of machines that are on or off.
"""

from drivers.core.interface_kinds import Inspect
from drivers.core.target import Inspected, Target
from drivers.redfish.interface import Redfish
from drivers.redfish.inventory import Inventory, read
from drivers.redfish.transport import client
from drivers.redfish.transport.documents import Documents

#: Hooks that always run, before `[redfish]inspection_hooks`.
HOOKS = ("memory", "cpus", "root-device", "boot-mode")


class RedfishInspect(Redfish, Inspect):
    """Inspection of processors, memory, disks and network interfaces that the BMC lists."""

    def inspect_hardware(self, target: Target) -> None:
        with client.turn(target, self.bmcs) as bmc:
            documents = Documents(bmc)
            inventory = self.read(documents)
        hooks = (*HOOKS, *target.options["redfish"]["inspection_hooks"])
        unread = {"unread_documents": documents.omitted} if documents.omitted else {}
        target.report(inspected=Inspected(inventory, unread, hooks, partial=True))

    def read(self, documents: Documents) -> Inventory:
        """
        Read the machine's inventory.

        Raises HardwareError: the BMC has no system, or does not answer.
        """
        return read(documents)
