"""
Interfaces with Ironic's names for iDRACs, the BMCs of Dell.

A node of Ironic keeps the names of its interfaces. The Redfish interfaces serve it, which recognize
a machine of Dell by its BMC's documents under any name. These interfaces add steps for the iDRAC
and its job queue, and an inspection by Dell's service tag and PXE settings.
"""

from typing import Any

from drivers.core.errors import HardwareError, NotSupported
from drivers.core.steps import AWAITED, Done, Outcome, Wait, step
from drivers.core.target import Target, run_parts
from drivers.redfish.bios import RedfishBios
from drivers.redfish.booting.boot import RedfishVirtualMedia
from drivers.redfish.inspect import RedfishInspect
from drivers.redfish.inventory import Inventory, read
from drivers.redfish.management import RedfishManagement
from drivers.redfish.power import RedfishPower
from drivers.redfish.raid import RedfishRaid
from drivers.redfish.transport import client, navigation
from drivers.redfish.transport.client import Connection
from drivers.redfish.transport.conversions import entry, text, word
from drivers.redfish.transport.documents import Documents
from drivers.redfish.vendor import RedfishVendor

NAME = "idrac-redfish"
#: Seconds between two polls, and until a step that waits for the iDRAC fails.
POLL_INTERVAL, LONGEST = 10.0, 1800.0
#: Polls after which an iDRAC that answered all of them counts as restarted.
POLLS = 12
#: BIOS attributes of a UEFI boot by PXE: whether it is enabled, and its network interface.
_PXE_DEVICES = tuple((f"PxeDev{index}EnDis", f"PxeDev{index}Interface") for index in range(1, 5))
_ALL_JOBS = "JID_CLEARALL"


class IdracBios(RedfishBios):
    """The Redfish interface under Ironic's name of it for iDRACs."""

    name = NAME


class IdracPower(RedfishPower):
    """The Redfish interface under Ironic's name of it for iDRACs."""

    name = NAME


class IdracRaid(RedfishRaid):
    """The Redfish interface under Ironic's name of it for iDRACs."""

    name = NAME


class IdracVendor(RedfishVendor):
    """The Redfish interface under Ironic's name of it for iDRACs."""

    name = NAME


class IdracVirtualMedia(RedfishVirtualMedia):
    """The Redfish interface under Ironic's name of it for iDRACs."""

    name = "idrac-redfish-virtual-media"


class IdracInspect(RedfishInspect):
    """Out-of-band inspection that knows Dell's service tag and PXE settings."""

    name = NAME

    def read(self, documents: Documents) -> Inventory:
        return _inventory(documents)


class IdracManagement(RedfishManagement):
    """The Redfish interface, with steps that bring an iDRAC into a known state."""

    name = NAME

    def inventory_of(self, documents: Documents) -> Inventory:
        return _inventory(documents)

    @step(clean=0, verify=0, service=0, needs_ramdisk=False, timeout=LONGEST)
    def clear_job_queue(self, target: Target) -> Outcome:
        """Delete all jobs of the iDRAC, and wait until it lists no unfinished one."""
        with client.turn(target, self.bmcs) as bmc:
            services = _services_of_dell(bmc)
            if not target.progress.get("ordered"):
                target.before_order()
                services.job_service.delete_jobs([_ALL_JOBS])
            unfinished = services.job_collection.get_unfinished_jobs()
        if unfinished:
            awaited_event = f"the end of {len(unfinished)} jobs of the iDRAC"
            return Wait({"ordered": True, AWAITED: awaited_event}, poll_after=POLL_INTERVAL)
        return Done()

    @step(clean=0, verify=0, service=0, needs_ramdisk=False, timeout=LONGEST)
    def reset_idrac(self, target: Target) -> Outcome:
        """
        Restart the iDRAC, and wait until it answers again.

        An iDRAC that reports the time of its last reset has to report a new one; any other has to
        be silent once, or answer `POLLS` polls.
        """
        if not target.progress.get("ordered"):
            with client.turn(target, self.bmcs) as bmc:
                services = _services_of_dell(bmc)
                last_reset = _last_reset(bmc)
                target.before_order()
                services.idrac_card_service.reset_idrac()
            initial_progress = {
                "ordered": True,
                "last_reset": last_reset,
                "polls": 0,
                "silent": False,
            }
            return Wait(initial_progress, poll_after=POLL_INTERVAL)
        polls = int(target.progress["polls"]) + 1
        progress = {**target.progress, "polls": polls}
        try:
            with client.turn(target, self.bmcs) as bmc:
                bmc.system(fresh=True)
                current_reset = _last_reset(bmc)
        except HardwareError as error:
            silent_progress = {**progress, "silent": True}
            return Wait(silent_progress, poll_after=POLL_INTERVAL, reason=str(error))
        if current_reset is None:
            restarted = progress["silent"] or polls >= POLLS
        else:
            restarted = current_reset != progress["last_reset"]
        return Done() if restarted else Wait(progress, poll_after=POLL_INTERVAL)

    @step(clean=0, verify=0, service=0, needs_ramdisk=False, timeout=2 * LONGEST)
    def known_good_state(self, target: Target) -> Outcome:
        """Restart the iDRAC, then delete all its jobs."""
        return run_parts(target, {"reset": self.reset_idrac, "jobs": self.clear_job_queue})


def _inventory(documents: Documents) -> Inventory:
    """
    Read the inventory. The serial number is the service tag, as the agent reports it; the machine
    boots from the first interface that the BIOS enables for PXE in UEFI mode.
    """
    machine = read(documents)
    tag = text(entry(documents.system, "SKU"))
    if tag:
        machine["system_vendor"]["serial_number"] = tag
    if machine["boot"].get("current_boot_mode") == "uefi":
        addresses = {nic.get("name"): nic["mac_address"] for nic in machine["interfaces"]}
        names = [name for name in _pxe_interfaces(documents) if name in addresses]
        if names:
            machine["boot"]["pxe_interface"] = addresses[names[0]]
    return machine


def _services_of_dell(bmc: Connection) -> Any:
    """
    Return sushy's extension of the manager that has Dell's services.

    Raises NotSupported: no manager has them.
    """
    for manager in navigation.managers(bmc, bmc.system(fresh=False)):
        if entry(manager.json, "Oem", "Dell") is not None:
            return manager.get_oem_extension("Dell")
    raise NotSupported(f"BMC {bmc.access.address} is no iDRAC: it has no services of Dell")


def _last_reset(bmc: Connection) -> str | None:
    """Return the time of the last reset of the first manager that reports it, as text."""
    for manager in navigation.managers(bmc, bmc.system(fresh=False)):
        if reset_time := text(entry(manager.json, "LastResetTime")):
            return reset_time
    return None


def _pxe_interfaces(documents: Documents) -> list[str]:
    """Return the names of the network interfaces that the BIOS enables for PXE in UEFI mode."""
    attributes = entry(documents.part(documents.system, "Bios"), "Attributes")
    return [
        word(entry(attributes, device))
        for switch, device in _PXE_DEVICES
        if word(entry(attributes, switch)) == "Enabled"
    ]
