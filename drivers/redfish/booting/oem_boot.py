"""
Redfish: boot device of BMCs for which `Cd` is the drive in the machine, by an action of the vendor.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drivers.core.bmc import Bmcs
from drivers.core.errors import NotSupported
from drivers.core.steps import Outcome
from drivers.core.target import Target
from drivers.redfish.changes import restart
from drivers.redfish.changes.orders import Order, Request
from drivers.redfish.transport import navigation
from drivers.redfish.transport.client import Connection
from drivers.redfish.transport.conversions import entry, text

if TYPE_CHECKING:
    from sushy.resources.manager.manager import Manager


_ACTION = "OemManager.v1_0_0#OemManager.ImportSystemConfiguration"
#: Attributes of iDRAC: boot device of the next starts, and whether only of the next one.
_DEVICE, _ONCE = "ServerBoot.1#FirstBootDevice", "ServerBoot.1#BootOnce"
_VIRTUAL_CD = "VCD-DVD"


def choose_virtual_cd(target: Target, bmcs: Bmcs, *, persistent: bool) -> Outcome:
    """
    Part of a step: set the boot device to the virtual CD of an iDRAC; `Done` once it shows that.

    Raises NotSupported: the BMC lacks the action.
    Raises HardwareError.
    """
    return restart.carry_out(target, bmcs, VirtualCd(is_persistent=persistent), None)


@dataclass(frozen=True)
class VirtualCd(Order):
    """Order of the boot device: an import of two attributes of the iDRAC, which is a job."""

    is_persistent: bool

    subject = f"boot device {_VIRTUAL_CD}"
    #: an iDRAC that does not show its attributes is compared with nothing
    is_compared = False

    @property
    def _attributes(self) -> dict[str, str]:
        return {_ONCE: "Disabled" if self.is_persistent else "Enabled", _DEVICE: _VIRTUAL_CD}

    def facts(self, bmc: Connection) -> dict[str, Any]:
        """Note whether the iDRAC shows its attributes."""
        return {"shows": bool(_shown(bmc))}

    def request(self, bmc: Connection) -> Request:
        manager = _manager(bmc)
        path = None if manager is None else _action(manager)
        if manager is None or path is None:
            raise NotSupported(
                f"BMC {bmc.access.address} cannot boot from virtual media: it lacks"
                " ImportSystemConfiguration; update its firmware, or use boot_interface ipxe"
            )
        attributes = "".join(
            f'<Attribute Name="{name}">{value}</Attribute>'
            for name, value in self._attributes.items()
        )
        configuration = (
            f'<SystemConfiguration><Component FQDD="{manager.identity}">{attributes}</Component>'
            "</SystemConfiguration>"
        )
        body = {"ShareParameters": {"Target": ["ALL"]}, "ImportBuffer": configuration}
        return Request("POST", path, body)

    def difference(self, bmc: Connection, facts: Mapping[str, Any]) -> str:
        if not facts["shows"]:
            return ""
        shown_values = _shown(bmc)
        return ", ".join(
            f"{name} is {shown_values.get(name)}, not {value}"
            for name, value in self._attributes.items()
            if shown_values.get(name) != value
        )

    def was_taken(self, bmc: Connection, facts: Mapping[str, Any]) -> bool:
        return bool(facts["shows"]) and not self.difference(bmc, facts)


def _manager(bmc: Connection) -> "Manager | None":
    """Read the system's first manager, if it has one."""
    return next(iter(navigation.managers(bmc, bmc.system(fresh=False))), None)


def _action(manager: "Manager") -> str | None:
    actions = entry(manager.json, "Actions", "Oem")
    names = (_ACTION, "#OemManager.ImportSystemConfiguration")
    paths = (text(entry(actions, name, "target"), max_length=2048) for name in names)
    return next(filter(None, paths), None)


def _shown(bmc: Connection) -> dict[str, str | None]:
    """
    Read the attributes of the boot device, by their names in an import.

    They are in one document of the manager, whose place depends on the firmware. Empty: the BMC
    does not serve it.
    """
    manager = _manager(bmc)
    if manager is None:
        return {}
    base = manager.path.rstrip("/")
    for path in (f"{base}/Oem/Dell/DellAttributes/{manager.identity}", f"{base}/Attributes"):
        attributes = entry(bmc.find(path), "Attributes")
        shown_values = {
            name: text(entry(attributes, name.replace("#", "."))) for name in (_DEVICE, _ONCE)
        }
        if any(shown_values.values()):
            return shown_values
    return {}
