"""
Machines that differ from the Redfish standard, as far as a BMC does not say so itself.

Each row has its source, and a test against a BMC that behaves so. `docs/hardware-vendors.md` shows
the table. Behaviour that a BMC shows by its documents or refusals needs no row: see
`drivers.redfish.booting.boot_device` and `drivers.redfish.booting.virtual_media`.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from drivers.redfish.transport import navigation
from drivers.redfish.transport.client import Connection
from drivers.redfish.transport.conversions import entry, text


class Difference(StrEnum):
    """A difference, and the behaviour of this service."""

    FULL_BOOT_REQUEST = (
        "boot settings need target, enabled and mode in one request: all three are sent at once"
    )
    USB_CD = "the virtual CD boots as UsbCd, not as Cd: UsbCd is ordered where the BMC lists it"
    OEM_VIRTUAL_CD = (
        "Cd is the drive in the machine, not the virtual CD: the boot device VCD-DVD is ordered by"
        " ImportSystemConfiguration, and compared with the attributes of the iDRAC"
    )
    EMULATED_HTTP_BOOT = (
        "Pxe, or Cd with the image of the URL, emulate boot by UEFI HTTP and are reported instead:"
        " they count as its effect"
    )
    MEDIUM_1 = "images boot from the virtual medium with the id 1 only: it is used first"
    NO_INSERTION = (
        "images cannot be inserted by Redfish: the error names boot_interface ipxe, pxe and"
        " http-ipxe"
    )


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of a machine, as its BMC reports it; empty texts: unknown."""

    vendor: str = ""  # of the service, and manufacturer of the system
    model: str = ""  # of the BMC
    firmware: str = ""  # version of the BMC's firmware


@dataclass(frozen=True, slots=True)
class Quirk:
    """A row: the machines, the difference, its source and its test."""

    name: str
    vendor: str  # regular expression, searched in the vendor without regard to case
    difference: Difference
    source: str  # URL
    test: str  # function in tests/unit/drivers/redfish/booting/test_quirks.py
    model: str = ""  # regular expression, at the start of the BMC's model
    since: tuple[int, ...] = ()  # first firmware version; empty: any
    before: tuple[int, ...] = ()  # first firmware version without the difference; empty: none

    def matches(self, identity: Identity) -> bool:
        if not re.search(self.vendor, identity.vendor, re.IGNORECASE):
            return False
        if self.model and not re.match(self.model, identity.model, re.IGNORECASE):
            return False
        version = _version(identity.firmware)
        if (self.since or self.before) and not version:
            return False
        return version >= self.since and (not self.before or version < self.before)


#: Model of the BMC of a PowerEdge: generation, then its kind, as "14G Monolithic".
_IDRAC_9, _IDRAC_10 = r"1[4-6]G", r"(1[7-9]|[2-9]\d)G"

QUIRKS: tuple[Quirk, ...] = (
    Quirk(
        "AMI: full boot request",
        r"american megatrends|\bami\b|redfish_compatible",
        Difference.FULL_BOOT_REQUEST,
        "https://opendev.org/openstack/ironic/src/branch/master/ironic/drivers/modules/redfish/management.py",
        "test_target_enabled_and_mode_are_sent_together",
    ),
    Quirk(
        "ASRock Rack: full boot request",
        r"asrock",
        Difference.FULL_BOOT_REQUEST,
        "https://opendev.org/openstack/ironic/src/branch/master/ironic/drivers/modules/redfish/management.py",
        "test_target_enabled_and_mode_are_sent_together",
    ),
    Quirk(
        "Supermicro: boot mode is lost",
        r"super\s?micro",
        Difference.FULL_BOOT_REQUEST,
        "https://github.com/DMTF/Redfishtool/pull/106",
        "test_target_enabled_and_mode_are_sent_together",
    ),
    Quirk(
        "Supermicro: virtual CD on USB",
        r"super\s?micro",
        Difference.USB_CD,
        "https://opendev.org/openstack/sushy/src/branch/master/sushy/resources/system/system.py",
        "test_the_virtual_cd_of_a_supermicro_boots_as_usb_cd",
    ),
    Quirk(
        "Dell iDRAC 7 and 8: no insertion of images",
        r"\bdell\b",
        Difference.NO_INSERTION,
        "https://github.com/dell/iDRAC-Redfish-Scripting/issues/24",
        "test_a_dell_without_insertion_is_refused_with_the_interfaces_that_work",
        model=r"1[23]G",
    ),
    Quirk(
        "Dell iDRAC 9 before 3.30: no insertion of images",
        r"\bdell\b",
        Difference.NO_INSERTION,
        "https://github.com/dell/iDRAC-Redfish-Scripting/issues/24",
        "test_a_dell_without_insertion_is_refused_with_the_interfaces_that_work",
        model=_IDRAC_9,
        before=(3, 30),
    ),
    Quirk(
        "Dell iDRAC 9 before 6.00: OEM boot device",
        r"\bdell\b",
        Difference.OEM_VIRTUAL_CD,
        "https://opendev.org/openstack/ironic/src/branch/master/ironic/drivers/modules/drac/boot.py",
        "test_the_virtual_cd_of_an_old_idrac_is_ordered_by_its_oem_action",
        model=_IDRAC_9,
        since=(3, 30),
        before=(6,),
    ),
    Quirk(
        "Dell iDRAC 10: virtual medium 1",
        r"\bdell\b",
        Difference.MEDIUM_1,
        "https://opendev.org/openstack/ironic/src/branch/master/ironic/drivers/modules/drac/boot.py",
        "test_an_idrac_10_gets_its_image_in_medium_1",
        model=_IDRAC_10,
    ),
    Quirk(
        "sushy-emulator: emulated HTTP boot",
        r"sushy emulator",
        Difference.EMULATED_HTTP_BOOT,
        "https://opendev.org/openstack/sushy-tools/src/branch/master/sushy_tools/emulator/main.py",
        "test_http_boot_of_the_emulator_is_reported_as_its_substitute",
    ),
)


def of(bmc: Connection, differences: Collection[Difference]) -> frozenset[Difference]:
    """
    Return the differences, of the given ones, that a BMC has. Use inside `client.turn` only.

    Reads the manager only if a row of the vendor names a model or firmware version.

    Raises HardwareError.
    """
    system = bmc.system(fresh=False)
    names = (entry(bmc.open().json, "Vendor"), entry(system.json, "Manufacturer"))
    identity = Identity(vendor=" ".join(filter(None, map(text, names))))
    rows = [row for row in QUIRKS if row.difference in differences]
    rows = [row for row in rows if re.search(row.vendor, identity.vendor, re.IGNORECASE)]
    if any(row.model or row.since or row.before for row in rows):
        identity = _with_firmware(bmc, identity)
    return frozenset(row.difference for row in rows if row.matches(identity))


def _with_firmware(bmc: Connection, identity: Identity) -> Identity:
    """Add model and firmware version of the system's first manager."""
    manager = next(iter(navigation.managers(bmc, bmc.system(fresh=False))), None)
    document = {} if manager is None else manager.json
    return Identity(
        identity.vendor,
        text(entry(document, "Model")) or "",
        text(entry(document, "FirmwareVersion")) or "",
    )


def _version(firmware: str) -> tuple[int, ...]:
    """Return the leading numbers of a firmware version, which may be none."""
    match = re.match(r"\d+(\.\d+)*", firmware)
    return tuple(int(number[:9]) for number in match[0].split(".")) if match else ()
