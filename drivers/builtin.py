"""
The built-in hardware types, and the interfaces that each accepts, the default first.

The service also uses some parts of these drivers without a node's interface: it removes files that
no machine boots from any more, polls agents, returns their logs, compares switch ports, publishes
boot loaders, and prints the configuration of dnsmasq. It imports these parts from here.
"""

from collections.abc import Mapping, Sequence

from drivers.agent.anaconda import AnacondaDeploy
from drivers.agent.autodetect import Autodetect
from drivers.agent.bootc import Bootc
from drivers.agent.deploy import CustomAgent, Direct
from drivers.agent.in_band import command_ended
from drivers.agent.inspect import AgentInspect
from drivers.agent.logs import read as read_agent_log
from drivers.agent.power import AgentPower
from drivers.agent.raid import AgentRaid
from drivers.agent.ramdisk import RamdiskDeploy
from drivers.agent.rescue import AgentRescue
from drivers.boot import dnsmasq
from drivers.boot import loaders as boot_loaders
from drivers.boot.network import Http, HttpIpxe, Ipxe, Pxe
from drivers.core.driver import HardwareType
from drivers.core.interface import Interface
from drivers.core.interface_kinds import KINDS
from drivers.fake import hardware as fake
from drivers.generic.noop import (
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
from drivers.generic.storage import CinderStorage, ExternalStorage
from drivers.generic.webhook import WebhookPower
from drivers.images import cache as image_cache
from drivers.images import files as machine_files
from drivers.ipmi.console import IpmitoolShellinabox, IpmitoolSocat
from drivers.ipmi.intel import IntelIpmiManagement
from drivers.ipmi.management import IpmiManagement
from drivers.ipmi.power import IpmiPower
from drivers.ipmi.vendor import IpmiVendor
from drivers.neutron.interfaces import Flat, Neutron, unusable_networks
from drivers.redfish.bios import RedfishBios
from drivers.redfish.booting.boot import RedfishHttps, RedfishVirtualMedia
from drivers.redfish.console import RedfishSerial
from drivers.redfish.firmware import RedfishFirmware
from drivers.redfish.graphical_console import RedfishGraphical
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
from drivers.switch import wiring as switch_ports
from drivers.switch.interfaces import Switch
from drivers.switch.sessions import DIALECTS as SWITCH_DIALECTS

__all__ = [
    "HARDWARE_TYPES",
    "INTERFACES",
    "SIMULATOR",
    "SWITCH_DIALECTS",
    "boot_loaders",
    "command_ended",
    "dnsmasq",
    "image_cache",
    "machine_files",
    "read_agent_log",
    "switch_ports",
    "unusable_networks",
]

#: Program of simulated machines, for `python -m`: the demo's.
SIMULATOR = "drivers.simulator"

#: Interfaces for machines of any vendor.
_GENERIC: Mapping[str, Sequence[type[Interface]]] = {
    "bios": (NoBios,),
    "boot": (Ipxe, Pxe, HttpIpxe, Http),
    "console": (NoConsole,),
    "deploy": (
        Direct,
        Autodetect,
        Bootc,
        CustomAgent,
        RamdiskDeploy,
        AnacondaDeploy,
        NoopDeploy,
    ),
    "firmware": (NoFirmware,),
    "inspect": (AgentInspect, NoInspect),
    "network": (NoopNetwork, Flat, Neutron, Switch),
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
        "console": (NoConsole, RedfishGraphical, RedfishSerial),
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

    They have the interfaces of `redfish`, which recognize a machine of Dell by its BMC's documents.
    """

    name = "idrac"
    interfaces = {
        kind: (*_IDRAC.get(kind, ()), *names) for kind, names in Redfish.interfaces.items()
    } | {"management": (IdracManagement, RedfishManagement)}


class Ipmi(HardwareType):
    """Machines with an IPMI 2.0 BMC."""

    name = "ipmi"
    interfaces = {
        **_GENERIC,
        "console": (NoConsole, IpmitoolSocat, IpmitoolShellinabox),
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
        "console": (
            fake.FakeConsole, fake.FakeGraphical, NoConsole, IpmitoolSocat, IpmitoolShellinabox,
            RedfishGraphical, RedfishSerial,
        ),
        "deploy": (fake.FakeDeploy, *_GENERIC["deploy"]),
        "firmware": (fake.FakeFirmware, NoFirmware, RedfishFirmware),
        "inspect": (fake.FakeInspect, NoInspect, AgentInspect, RedfishInspect, IdracInspect),
        "management": (
            fake.FakeManagement, NoopManagement, RedfishManagement, IpmiManagement,
            IdracManagement, IntelIpmiManagement,
        ),
        "network": (NoopNetwork, Flat, Neutron, Switch),
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
    kind: tuple(
        {
            cls.name: None
            for hardware_class in HARDWARE_TYPES
            for cls in hardware_class.interfaces[kind]
        }
    )
    for kind in KINDS
}
