"""Redfish documents of the BMC: the registry of BIOS attributes."""

from drivers.simulator.machine import BIOS_CHOICES, BIOS_DEFAULTS, Machine
from drivers.simulator.redfish_bmc.documents import REGISTRY, Document, resource


def registry_file(_machine: Machine) -> Document:
    return resource(
        REGISTRY,
        "MessageRegistryFile.v1_1_0.MessageRegistryFile",
        "BIOS Attribute Registry File",
        Description="BIOS attributes",
        Languages=["en"],
        Registry="BiosAttributeRegistry.v1_0_0",
        Location=[{"Language": "en", "Uri": f"{REGISTRY}/en"}],
    )


def registry(_machine: Machine) -> Document:
    def attribute(name: str) -> Document:
        entry = {
            "AttributeName": name,
            "DefaultValue": BIOS_DEFAULTS[name],
            "DisplayName": name,
            "Immutable": False,
            "ReadOnly": False,
            "ResetRequired": True,
        }
        if name not in BIOS_CHOICES:
            return {**entry, "Type": "Integer", "LowerBound": 9600, "UpperBound": 921600}
        choices = [{"ValueName": choice} for choice in BIOS_CHOICES[name]]
        return {**entry, "Type": "Enumeration", "Value": choices}

    return resource(
        f"{REGISTRY}/en",
        "AttributeRegistry.v1_3_0.AttributeRegistry",
        "BIOS Attribute Registry",
        Id="BiosAttributeRegistry.v1_0_0",
        Language="en",
        OwningEntity="Simulated",
        RegistryVersion="1.0.0",
        RegistryEntries={"Attributes": [attribute(name) for name in sorted(BIOS_DEFAULTS)]},
    )
