"""
Ingot's own hardware types, and the interfaces that each accepts, the default first.
"""

from collections.abc import Mapping, Sequence

from drivers.agent.deploy import CustomAgent, Direct
from drivers.agent.netboot import Ipxe
from drivers.agent.raid import AgentRaid
from drivers.agent.rescue import AgentRescue
from drivers.fake import hardware as fake
from drivers.interfaces import Interface
from drivers.ipmi.management import IpmiManagement
from drivers.ipmi.power import IpmiPower
from drivers.noop import (
    NoBios,
    NoConsole,
    NoFirmware,
    NoInspect,
    NoopManagement,
    NoopNetwork,
    NoopStorage,
    NoRaid,
    NoRescue,
    NoVendor,
)
from drivers.redfish.boot import RedfishVirtualMedia
from drivers.redfish.management import RedfishManagement
from drivers.redfish.power import RedfishPower
from drivers.registry import HardwareType

#: What a machine of any make can use.
_GENERIC: Mapping[str, Sequence[type[Interface]]] = {
    "bios": (NoBios,),
    "boot": (Ipxe,),
    "console": (NoConsole,),
    "deploy": (Direct, CustomAgent),
    "firmware": (NoFirmware,),
    "inspect": (NoInspect,),
    "network": (NoopNetwork,),
    "raid": (NoRaid, AgentRaid),
    "rescue": (NoRescue, AgentRescue),
    "storage": (NoopStorage,),
    "vendor": (NoVendor,),
}


class Redfish(HardwareType):
    """Machines whose BMC speaks Redfish."""

    name = "redfish"
    interfaces = {
        **_GENERIC,
        "boot": (RedfishVirtualMedia, Ipxe),
        "management": (RedfishManagement, NoopManagement),
        "power": (RedfishPower,),
    }


class Ipmi(HardwareType):
    """Machines whose BMC speaks IPMI 2.0."""

    name = "ipmi"
    interfaces = {
        **_GENERIC,
        "management": (IpmiManagement, NoopManagement),
        "power": (IpmiPower,),
    }


class FakeHardware(HardwareType):
    """Nothing, or whatever part of a real machine one wants to try: accepts every interface."""

    name = "fake-hardware"
    interfaces = {
        "bios": (fake.FakeBios, NoBios),
        "boot": (fake.FakeBoot, Ipxe, RedfishVirtualMedia),
        "console": (fake.FakeConsole, NoConsole),
        "deploy": (fake.FakeDeploy, Direct, CustomAgent),
        "firmware": (fake.FakeFirmware, NoFirmware),
        "inspect": (fake.FakeInspect, NoInspect),
        "management": (fake.FakeManagement, NoopManagement, RedfishManagement, IpmiManagement),
        "network": (NoopNetwork,),
        "power": (fake.FakePower, RedfishPower, IpmiPower),
        "raid": (fake.FakeRaid, NoRaid, AgentRaid),
        "rescue": (fake.FakeRescue, NoRescue, AgentRescue),
        "storage": (fake.FakeStorage, NoopStorage),
        "vendor": (fake.FakeVendor, NoVendor),
    }


HARDWARE_TYPES: tuple[type[HardwareType], ...] = (FakeHardware, Redfish, Ipmi)
