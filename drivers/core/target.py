"""
The target: all that a driver may know about a node while it works on it.

A driver gets a `Target`, acts on the machine, and returns an outcome. What it learnt on the way
(the power state, the boot mode, facts for `driver_internal_info`) it *reports*; the worker writes
reports together with the outcome, in one fenced transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from drivers.core.errors import InvalidDriverInfo

if TYPE_CHECKING:
    from drivers.core.driver import Driver  # types only: methods of interfaces take targets

Options = Mapping[str, Mapping[str, Any]]

#: What a driver may report, beside `driver_internal_info`, `properties` (both merged key by key;
#: None removes a key), `agent` (see `forget_agent`), `agent_steps` ({flow: [step, ...]}) and
#: `agent_token`: the token that was put on the medium which boots the agent; None: on none, so that
#: the agent is given one when it asks.
#: bios_settings: all of them, [{name, value, attribute_type?, ...}]. firmware: all components,
#: [{component, current_version, vendor?, model?, serial_number?, last_version_flashed?}].
#: boot_warning: a sentence about what may keep the machine from booting, None for nothing.
#: findings: what came of an inspection.
REPORTABLE = frozenset(
    {
        "bios_settings", "boot_mode", "boot_warning", "console_enabled", "findings", "firmware",
        "health", "instance_info", "power_state", "raid_config", "secure_boot",
        "target_raid_config",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Nic:
    """A port of the node: what a driver needs of it."""

    uuid: str
    address: str
    pxe_enabled: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VolumeConnector:
    """How storage knows the node. type: of `connector_id`: iqn, ip, mac, wwnn, wwpn, ..."""

    uuid: str
    type: str
    connector_id: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VolumeTarget:
    """
    A volume. boot_index: 0 for the one to boot from. properties: how to reach it, with secrets:
    for volume_type iscsi, target_portal, target_iqn, target_lun, auth_username, ...
    """

    uuid: str
    volume_type: str
    volume_id: str
    boot_index: int
    properties: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Agent:
    """
    The ramdisk agent that last announced itself for this node, if any.

    steps: {flow: [step as the agent reported it]}, from its last `get_*_steps`.
    status, status_message: what an installer says of its work: start, end or error.
    silent_for: seconds since its last heartbeat. pregenerated: the token was made for its medium.
    """

    url: str | None = None
    token: str | None = None
    verify_ca: str | None = None
    version: str | None = None
    steps: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    hardware_manager_version: Mapping[str, str] = field(default_factory=dict)
    status: str | None = None
    status_message: str | None = None
    silent_for: float | None = None
    pregenerated: bool = False


@dataclass(frozen=True, slots=True)
class Material:
    """
    What an inspection begins with.

    report: what the agent has posted, with its `inventory`; None: nothing yet. node: its fields.
    ports: [{uuid, address, ...}]; `bound` of one says that a VIF is attached. rules: as callers
    wrote them, in the order in which they apply. before: the inventory of the inspection before.
    """

    report: Mapping[str, Any] | None = None
    node: Mapping[str, Any] = field(default_factory=dict)
    ports: Sequence[Mapping[str, Any]] = ()
    traits: Sequence[str] = ()
    rules: Sequence[Mapping[str, Any]] = ()
    before: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """
    One node, as its driver sees it.

    volume_connectors, volume_targets: by boot_index; empty for a storage interface that uses none.
    material: what an inspection begins with; empty for steps of other interfaces.
    record: the node as the agent expects it in `params.node` of a command (a JSON object).
    options: settings by group and name, as `app.settings` knows them: options["agent"]["..."].
    step_id: names the row that is being run, the same for all attempts of it; "" when unknown.
    progress: what the step's last `Wait` carried; empty at its first call.
    resumed: an earlier attempt of this step died while it ran.
    before_order: called right before each order to a BMC or agent; raises LeaseLost.
    """

    uuid: str
    name: str | None
    driver: "Driver"
    driver_info: Mapping[str, Any] = field(default_factory=dict)
    driver_internal_info: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    instance_info: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    power_state: str | None = None
    provision_state: str | None = None
    disable_power_off: bool = False
    nics: tuple[Nic, ...] = ()
    volume_connectors: tuple[VolumeConnector, ...] = ()
    volume_targets: tuple[VolumeTarget, ...] = ()
    agent: Agent = Agent()
    material: Material = Material()
    record: Mapping[str, Any] = field(default_factory=dict)
    options: Options = field(default_factory=dict)
    step_id: str = ""
    progress: Mapping[str, Any] = field(default_factory=dict)
    resumed: bool = False
    before_order: Callable[[], None] = lambda: None
    reports: dict[str, Any] = field(default_factory=dict)

    def report(self, **facts: Any) -> None:
        """Record facts about the machine, to be written with the outcome of the step."""
        for name, value in facts.items():
            if name in ("driver_internal_info", "properties", "agent_steps"):
                self.reports[name] = {**self.reports.get(name, {}), **value}
            elif name in REPORTABLE or name in ("agent_token", "hardware_manager_version"):
                self.reports[name] = value
            else:
                raise TypeError(f"a driver cannot report {name!r}")

    def forget_agent(self) -> None:
        """
        The machine was powered off or reset: the agent that ran on it is gone.

        Its URL, its certificate, cached steps and its token are forgotten, unless the
        token was made beforehand for the boot media (IPA_PROTOCOL, "Agent token").
        """
        self.reports["agent"] = None

    def part(self, name: str) -> "Target":
        """This target for one part of a step; see `steps.nest`, which keeps its progress."""
        return replace(self, progress=self.progress.get(name, {}))

    def option(self, group: str, name: str) -> Any:
        """A setting; `driver_info` of the node overrides it where it carries the same name."""
        return self.driver_info.get(name, self.options[group][name])

    def need(self, field_name: str) -> Any:
        """A required key of driver_info. Raises InvalidDriverInfo that names it."""
        value = self.driver_info.get(field_name)
        if value in (None, ""):
            raise InvalidDriverInfo(f"driver_info/{field_name} is required and missing")
        return value
