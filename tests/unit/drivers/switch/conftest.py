"""A machine with two ports at a switch that has the commands of Cisco IOS."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from drivers.core.errors import Unreachable
from drivers.core.steps import Done
from drivers.core.switching import Switch, SwitchedNetworks, VlanNetwork
from drivers.core.target import Nic
from drivers.switch import sessions
from tests.support import switch_cli
from tests.unit.drivers.machines import OPTIONS, new_registry, target

SWITCH = Switch(
    uuid="s1", name="leaf-1", switch_id="0c:c4:7a:00:00:01", device_type="cisco_ios",
    address="127.0.0.1", port=22, username=switch_cli.USER, password=switch_cli.PASSWORD,
    host_key="ssh-ed25519 AAAA", ports=("Gi1/0/*",),
)  # fmt: skip
LINK = {"switch_id": "0C:C4:7A:00:00:01", "port_id": "Gi1/0/7"}
FIRST = Nic("p1", "52:54:00:00:00:01", local_link_connection=LINK)
SECOND = Nic(
    "p2",
    "52:54:00:00:00:02",
    pxe_enabled=False,
    local_link_connection={**LINK, "port_id": "Gi1/0/8"},
)
NETWORKS = {
    "cleaning": 100, "provisioning": 101, "rescuing": 102, "servicing": 103, "inspection": 104,
    "red": 200, "blue": 300,
}  # fmt: skip
OWNERS = {"red": "project-red", "blue": "project-blue"}


class Known(SwitchedNetworks):
    """Networks of `NETWORKS`, a trunk of project-red, and one switch."""

    def __init__(self, switch=SWITCH, claims=(), lag_claims=()):
        self.rows = {
            name: VlanNetwork(name, name, vlan, owner=OWNERS.get(name))
            for name, vlan in NETWORKS.items()
        }
        self.rows["trunk"] = VlanNetwork("trunk", "trunk", 200, (31, 30, 210), owner="project-red")
        self.at, self.claimed, self.lags = switch, list(claims), list(lag_claims)

    def network(self, ident):
        return self.rows.get(ident)

    def switch(self, link):
        return self.at if link.get("switch_id", "").lower() == self.at.switch_id else None

    def claims(self, link):
        return self.claimed

    def lag_claims(self, switch, lag):
        return self.lags


@pytest.fixture(scope="session")
def registry():
    return new_registry()


@pytest.fixture
def device():
    return switch_cli.IosSwitch("Gi1/0/7", "Gi1/0/8", "Gi1/0/9")


@pytest.fixture
def direct(device, monkeypatch):
    """Sessions with the switch itself; `direct.opened` counts them."""

    @contextmanager
    def opened(switch, _options):
        direct.opened += 1
        device._mode = "exec"
        try:
            yield _Direct(switch, sessions.DIALECTS["cisco_ios"], device)
        finally:
            device._mode = "exec"

    direct = type("Direct", (), {"opened": 0})()
    monkeypatch.setattr(sessions, "opened", opened)
    return direct


class _Direct(switch_cli.DirectSession):
    def configure(self, commands):
        try:
            super().configure(commands)
        except ConnectionError as error:
            raise Unreachable(str(error)) from error


@pytest.fixture
def machine(registry):
    """Factory of machines, as `new_machine`."""
    return partial(new_machine, registry)


def new_machine(registry, networks=None, **fields):
    """A machine whose networks are those of `Known`; settings as `switch_NAME`."""
    settings = {name: fields.pop(name) for name in list(fields) if name.startswith("switch_")}
    options = {
        **OPTIONS,
        "switch": {
            **OPTIONS["switch"],
            **{f"{name}_network": name for name in NETWORKS if name not in OWNERS},
            **{name.removeprefix("switch_"): value for name, value in settings.items()},
        },
    }
    return target(
        interfaces={"network": "switch", "boot": "ipxe", "deploy": "direct"},
        registry=registry,
        **{
            "options": options, "nics": (FIRST, SECOND),
            "switched_networks": networks or Known(), **fields,
        },
    )  # fmt: skip


def told(it):
    """The machine with the reports of its driver about ports, as the next step sees it."""

    def updated(place):
        merged = {
            **place.internal_info,
            **it.reports.get("port_internal_info", {}).get(place.uuid, {}),
        }
        return replace(place, internal_info={key: value for key, value in merged.items() if value})

    return replace(
        it, nics=tuple(map(updated, it.nics)), nic_groups=tuple(map(updated, it.nic_groups)),
        reports={}, progress={},
    )  # fmt: skip


def run(it, method):
    """Run a frame step, and return the machine after it."""
    outcome = it.driver.network.run(it, method, {})
    assert isinstance(outcome, Done), outcome
    return told(it)


def with_vif(place, vif):
    return replace(place, internal_info={**place.internal_info, "tenant_vif_port_id": vif})
