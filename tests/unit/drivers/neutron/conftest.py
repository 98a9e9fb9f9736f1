"""A machine whose networks are those of a little Neutron."""

from dataclasses import replace

import pytest

from drivers.core.steps import Done
from drivers.core.target import Nic, NicGroup
from drivers.neutron import service
from tests.support import neutron as support
from tests.unit.drivers.machines import OPTIONS, new_registry, target

LINK = {"switch_id": "0c:c4:7a:00:00:01", "port_id": "Eth1/7", "switch_info": "leaf-1"}
FIRST = Nic("p1", "52:54:00:00:00:01", local_link_connection=LINK)
SECOND = Nic(
    "p2",
    "52:54:00:00:00:02",
    pxe_enabled=False,
    local_link_connection={**LINK, "port_id": "Eth1/8"},
)


@pytest.fixture
def neutron():
    with support.serving() as server:
        yield server
    service._connect.cache_clear()


@pytest.fixture(scope="session")
def registry():
    return new_registry()


@pytest.fixture
def machine(neutron, registry):
    """Factory of machines: `machine("flat", **fields)`, with settings as `neutron_NAME`."""

    def make(network="neutron", boot="ipxe", **fields):
        settings = {name: fields.pop(name) for name in list(fields) if name.startswith("neutron_")}
        options = {
            **OPTIONS,
            "deploy": {**OPTIONS["deploy"], "http_url": "http://192.0.2.1:8080"},
            "pxe": {**OPTIONS["pxe"], "tftp_server": "192.0.2.1"},
            "neutron": {
                **OPTIONS["neutron"],
                "auth_type": "none",
                "endpoint_override": neutron.url,
                "retries": 0,
                **{f"{name}_network": name for name in support.NETWORKS if name != "tenant"},
                **{name.removeprefix("neutron_"): value for name, value in settings.items()},
            },
        }
        return target(
            interfaces={"network": network, "boot": boot, "deploy": "direct"},
            registry=registry,
            **{"options": options, "nics": (FIRST, SECOND), **fields},
        )

    return make


def told(it):
    """The machine with the reports of its driver about ports, as the next step sees it."""

    def updated(place):
        merged = {
            **place.internal_info,
            **it.reports.get("port_internal_info", {}).get(place.uuid, {}),
        }
        return replace(place, internal_info={key: value for key, value in merged.items() if value})

    return replace(
        it,
        nics=tuple(map(updated, it.nics)),
        nic_groups=tuple(map(updated, it.nic_groups)),
        reports={},
        progress={},
    )


def run(it, method):
    """Run a frame step to its end, and return the machine after it."""
    outcome = it.driver.network.run(it, method, {})
    while not isinstance(outcome, Done):
        assert hasattr(outcome, "progress"), outcome
        it = replace(it, progress=outcome.progress)
        outcome = it.driver.network.run(it, method, {})
    return told(it)


def with_vif(place, vif):
    return replace(place, internal_info={"tenant_vif_port_id": vif})


def bond(**fields):
    return NicGroup(
        "g1", "bond0", None, "802.3ad", {"miimon": 100, "xmit-hash-policy": "layer2"}, **fields
    )
