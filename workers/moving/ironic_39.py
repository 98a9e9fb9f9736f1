"""
Facts of Ironic 39, to whose database nodes are exported: schema, objects, hardware types.

A test compares them with an installed Ironic.
"""

from collections.abc import Mapping, Sequence

RELEASE = "39.0"
#: Newest revision of its schema, as `alembic_version` has it.
REVISION = "9fb44677ef15"
#: Table -> version of the objects that Ironic reads from its rows. It reads no row without one.
VERSIONS: Mapping[str, str] = {
    "allocations": "1.3",
    "bios_settings": "1.2",
    "chassis": "1.4",
    "deploy_templates": "1.2",
    "firmware_information": "1.2",
    "inspection_rules": "1.1",
    "node_history": "1.3",
    "node_inventory": "1.1",
    "node_traits": "1.1",
    "nodes": "1.44",
    "portgroups": "1.9",
    "ports": "1.16",
    "runbook_traits": "1.0",
    "runbooks": "1.2",
    "volume_connectors": "1.1",
    "volume_targets": "1.1",
}

#: Interfaces that machines of all hardware types have, in Ironic's order of preference.
_COMMON: Mapping[str, Sequence[str]] = {
    "bios": ("no-bios",),
    "boot": ("ipxe", "pxe", "http-ipxe", "http"),
    "console": ("no-console", "fake-graphical"),
    "deploy": ("autodetect", "direct", "ansible", "ramdisk", "anaconda", "bootc", "custom-agent"),
    "firmware": ("no-firmware",),
    "inspect": ("agent", "no-inspect"),
    "network": ("flat", "neutron", "ironic-networking", "noop"),
    "raid": ("no-raid", "agent"),
    "rescue": ("no-rescue", "agent"),
    "storage": ("noop", "cinder", "external"),
    "vendor": ("no-vendor",),
}
_REDFISH: Mapping[str, Sequence[str]] = {
    "console": ("redfish-graphical", "ipmitool-socat", *_COMMON["console"]),
    "firmware": ("redfish", "no-firmware"),
}
_IPMI: Mapping[str, Sequence[str]] = {
    **_COMMON,
    "console": ("ipmitool-socat", *_COMMON["console"]),
    "power": ("ipmitool",),
    "vendor": ("ipmitool", "no-vendor"),
}
_REAL: Mapping[str, Mapping[str, Sequence[str]]] = {
    "idrac": {
        **_COMMON,
        **_REDFISH,
        "bios": ("idrac-redfish", "redfish", "no-bios"),
        "boot": (*_COMMON["boot"], "idrac-redfish-virtual-media", "redfish-https"),
        "inspect": ("idrac-redfish", *_COMMON["inspect"]),
        "management": ("idrac-redfish",),
        "power": ("idrac-redfish", "redfish"),
        "raid": ("idrac-redfish", *_COMMON["raid"]),
        "vendor": ("idrac-redfish", "redfish", "no-vendor"),
    },
    "intel-ipmi": {**_IPMI, "management": ("intel-ipmitool",)},
    "ipmi": {**_IPMI, "management": ("ipmitool", "noop")},
    "manual-management": {
        **_COMMON,
        "deploy": (*_COMMON["deploy"], "noop"),
        "management": ("noop", "fake"),
        "power": ("agent", "fake"),
    },
    "redfish": {
        **_COMMON,
        **_REDFISH,
        "bios": ("redfish", "no-bios"),
        "boot": (*_COMMON["boot"], "redfish-virtual-media", "redfish-https"),
        "inspect": ("redfish", *_COMMON["inspect"]),
        "management": ("redfish", "noop"),
        "power": ("redfish",),
        "raid": ("redfish", *_COMMON["raid"]),
        "vendor": ("redfish", "no-vendor"),
    },
}
#: Hardware type -> kind -> interfaces, the preferred one first. Simulated machines take any.
HARDWARE_TYPES: Mapping[str, Mapping[str, Sequence[str]]] = {
    **_REAL,
    "fake-hardware": {
        kind: (
            "fake",
            *sorted({name for kinds in _REAL.values() for name in kinds[kind]} - {"fake"}),
        )
        for kind in _REAL["redfish"]
    },
}
