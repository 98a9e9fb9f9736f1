"""
The built-in hardware types, and the interfaces that each accepts, the default first.
"""

from collections.abc import Mapping, Sequence

from drivers.agent.anaconda import AnacondaDeploy
from drivers.agent.deploy import CustomAgent, Direct
from drivers.agent.inspect import AgentInspect
from drivers.agent.power import AgentPower
from drivers.agent.raid import AgentRaid
from drivers.agent.ramdisk import RamdiskDeploy
from drivers.agent.rescue import AgentRescue
from drivers.boot.network import Http, HttpIpxe, Ipxe, Pxe
from drivers.core.driver import HardwareType
from drivers.core.interface import Interface
from drivers.core.kinds import KINDS
from drivers.fake import hardware as fake
from drivers.ipmi.intel import IntelIpmiManagement
from drivers.ipmi.management import IpmiManagement
from drivers.ipmi.power import IpmiPower
from drivers.ipmi.vendor import IpmiVendor
from drivers.neutron.interfaces import Flat, Neutron
from drivers.noop import (
    NoBios,
    NoConsole,
    NoFirmware,
    NoInspect,
    NoopDeploy,
    NoopManagement,
    NoopNetwork,
    NoopStorage,
    NoRaid,
    NoRescue,
    NoVendor,
)
from drivers.redfish.bios import RedfishBios
from drivers.redfish.boot import RedfishHttps, RedfishVirtualMedia
from drivers.redfish.firmware import RedfishFirmware
from drivers.redfish.idrac import (
    IdracBios,
    IdracInspect,
    IdracManagement,
    IdracPower,
    IdracRaid,
    IdracVendor,
    IdracVirtualMedia,
)
from drivers.redfish.inspect import RedfishInspect
from drivers.redfish.management import RedfishManagement
from drivers.redfish.power import RedfishPower
from drivers.redfish.raid import RedfishRaid
from drivers.redfish.vendor import RedfishVendor
from drivers.storage import CinderStorage, ExternalStorage
from drivers.webhook import WebhookPower

#: Interfaces for machines of any vendor.
_GENERIC: Mapping[str, Sequence[type[Interface]]] = {
    "bios": (NoBios,),
    "boot": (Ipxe, Pxe, HttpIpxe, Http),
    "console": (NoConsole,),
    "deploy": (Direct, CustomAgent, RamdiskDeploy, AnacondaDeploy, NoopDeploy),
    "firmware": (NoFirmware,),
    "inspect": (AgentInspect, NoInspect),
    "network": (NoopNetwork, Flat, Neutron),
    "raid": (NoRaid, AgentRaid),
    "rescue": (NoRescue, AgentRescue),
    "storage": (NoopStorage, CinderStorage, ExternalStorage),
    "vendor": (NoVendor,),
}


class Redfish(HardwareType):
    """Machines with a Redfish BMC."""

    name = "redfish"
    interfaces = {
        **_GENERIC,
        "bios": (RedfishBios, NoBios),
        "boot": (RedfishVirtualMedia, RedfishHttps, Ipxe, Pxe, HttpIpxe, Http),
        "firmware": (RedfishFirmware, NoFirmware),
        "inspect": (RedfishInspect, AgentInspect, NoInspect),
        "management": (RedfishManagement, NoopManagement),
        "power": (RedfishPower,),
        "raid": (NoRaid, RedfishRaid, AgentRaid),
        "vendor": (RedfishVendor, NoVendor),
    }


#: Ironic's names for iDRACs, each before the interfaces of `redfish`.
_IDRAC: Mapping[str, Sequence[type[Interface]]] = {
    "bios": (IdracBios,),
    "boot": (IdracVirtualMedia,),
    "inspect": (IdracInspect,),
    "power": (IdracPower,),
    "raid": (IdracRaid,),
    "vendor": (IdracVendor,),
}


class Idrac(HardwareType):
    """
    Machines with an iDRAC of Dell, under Ironic's names.

    The interfaces are those of `redfish`, which recognize a machine of Dell by its BMC's documents.
    """

    name = "idrac"
    interfaces = {
        kind: (*_IDRAC.get(kind, ()), *accepted) for kind, accepted in Redfish.interfaces.items()
    } | {"management": (IdracManagement, RedfishManagement)}


class Ipmi(HardwareType):
    """Machines with an IPMI 2.0 BMC."""

    name = "ipmi"
    interfaces = {
        **_GENERIC,
        "management": (IpmiManagement, NoopManagement),
        "power": (IpmiPower,),
        "vendor": (IpmiVendor, NoVendor),
    }


class IntelIpmi(HardwareType):
    """Machines with an IPMI BMC of Intel."""

    name = "intel-ipmi"
    interfaces = {**Ipmi.interfaces, "management": (IntelIpmiManagement, NoopManagement)}


class ManualManagement(HardwareType):
    """
    Machines without a BMC.

    Their power is that of the running agent, or of a switch that answers HTTP; their firmware boots
    the network first.
    """

    name = "manual-management"
    interfaces = {
        **_GENERIC,
        "management": (NoopManagement, fake.FakeManagement),
        "power": (AgentPower, WebhookPower, fake.FakePower),
    }


class FakeHardware(HardwareType):
    """Fake machines, for tests; accepts every interface, so that a part of them can be real."""

    name = "fake-hardware"
    interfaces = {
        "bios": (fake.FakeBios, NoBios, RedfishBios, IdracBios),
        "boot": (
            fake.FakeBoot, Ipxe, Pxe, HttpIpxe, Http, RedfishVirtualMedia, RedfishHttps,
            IdracVirtualMedia,
        ),
        "console": (fake.FakeConsole, NoConsole),
        "deploy": (fake.FakeDeploy, Direct, CustomAgent, RamdiskDeploy, AnacondaDeploy, NoopDeploy),
        "firmware": (fake.FakeFirmware, NoFirmware, RedfishFirmware),
        "inspect": (fake.FakeInspect, NoInspect, AgentInspect, RedfishInspect, IdracInspect),
        "management": (
            fake.FakeManagement, NoopManagement, RedfishManagement, IpmiManagement,
            IdracManagement, IntelIpmiManagement,
        ),
        "network": (NoopNetwork, Flat, Neutron),
        "power": (
            fake.FakePower, RedfishPower, IpmiPower, IdracPower, AgentPower, WebhookPower,
        ),
        "raid": (fake.FakeRaid, NoRaid, AgentRaid, RedfishRaid, IdracRaid),
        "rescue": (fake.FakeRescue, NoRescue, AgentRescue),
        "storage": (NoopStorage, CinderStorage, ExternalStorage, fake.FakeStorage),
        "vendor": (fake.FakeVendor, NoVendor, RedfishVendor, IpmiVendor, IdracVendor),
    }  # fmt: skip


HARDWARE_TYPES: tuple[type[HardwareType], ...] = (
    FakeHardware, Redfish, Idrac, Ipmi, IntelIpmi, ManualManagement,
)  # fmt: skip

#: kind -> names of all built-in interfaces, opt-in ones included
INTERFACES: Mapping[str, tuple[str, ...]] = {
    kind: tuple({cls.name: None for each in HARDWARE_TYPES for cls in each.interfaces[kind]})
    for kind in KINDS
}
