"""
The target: a driver's view of a node during an operation.

A driver gets a `Target`, acts on the machine, and returns an outcome. It *reports* facts (power
state, boot mode, keys of `driver_internal_info`); the worker writes the reports together with the
outcome, in one fenced transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from drivers.core.bmc import Bmcs
from drivers.core.errors import InvalidDriverInfo
from drivers.core.steps import AWAITED, Done, Flow, Hold, Outcome, Step, Wait
from drivers.core.switching import SwitchedNetworks

Options = Mapping[str, Mapping[str, Any]]

#: Facts that replace the recorded value. `Target.report` also takes `driver_internal_info` and
#: `properties` (both merged key by key; None removes a key), `agent_steps` ({flow: [step, ...]}),
#: `hardware_manager_version`, and `agent_token`: the token on the medium that boots the agent,
#: or None if the medium has no token, and the agent gets its token from the lookup.
REPORTABLE = frozenset(
    {
        "addresses",  # MAC addresses of a machine whose node has no ports; its inspection adds them
        # numbers that the step has measured: {metric: {"value": number, "unit"?: text}}
        "benchmarks",
        "bios_settings",  # all settings: [{name, value, attribute_type?, ...}]
        "boot_mode",
        "boot_warning",  # a sentence about an obstacle to booting; None: no obstacle
        "console_enabled",
        "console_error",  # a sentence: why the console could not be started
        # all components: [{component, current_version, vendor?, model?, serial_number?,
        # last_version_flashed?}]
        "firmware",
        "health",
        "inspected",  # `Inspected`
        "instance_info",
        "inventory",  # `BmcInventory`
        "login_passwords",  # {field of driver_info: password}, each verified by a login
        "power_state",
        "port_internal_info",  # changed keys by UUID of port or port group; None removes a key
        "raid_config",
        "secure_boot",
        "target_raid_config",
        "volume_targets",  # changed columns by UUID: {uuid: {volume_type?, properties?}}
    }
)


@dataclass(frozen=True, slots=True)
class Nic:
    """A port of the node."""

    uuid: str
    address: str  # MAC address
    pxe_enabled: bool = True
    extra: Mapping[str, object] = field(default_factory=dict)
    group: str | None = None  # UUID of its port group
    local_link_connection: Mapping[str, object] = field(default_factory=dict)  # switch and its port
    physical_network: str | None = None
    is_smartnic: bool = False
    internal_info: Mapping[str, Any] = field(default_factory=dict)  # VIFs


@dataclass(frozen=True, slots=True)
class NicGroup:
    """A port group of the node."""

    uuid: str
    name: str | None
    address: str | None  # MAC address; None: that of a member
    mode: str  # of the bond
    properties: Mapping[str, object] = field(default_factory=dict)  # of the bond
    physical_network: str | None = None
    internal_info: Mapping[str, Any] = field(default_factory=dict)  # VIFs
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VolumeConnector:
    """Identity of the node towards storage."""

    uuid: str
    type: str  # iqn, ip, mac, wwnn, wwpn, ...
    connector_id: str
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VolumeTarget:
    """A remote volume of the node."""

    uuid: str
    volume_type: str
    volume_id: str
    boot_index: int  # 0: the boot volume
    #: connection data with secrets; for iscsi: target_portal, target_iqn, target_lun,
    #: auth_username, ...
    properties: Mapping[str, object] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Agent:
    """The ramdisk agent that last sent a heartbeat for this node; empty fields without one."""

    url: str | None = None
    token: str | None = None
    verify_ca: str | None = None  # certificates in PEM
    version: str | None = None
    #: {flow: [step as the agent reported it]}, from its last `get_*_steps`
    steps: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    hardware_manager_version: Mapping[str, str] = field(default_factory=dict)
    status: str | None = None  # an installer's progress: start, end or error
    status_message: str | None = None
    silent_for: float | None = None  # seconds since the last heartbeat
    pregenerated: bool = False  # the token was made beforehand, for the boot medium


@dataclass(frozen=True, slots=True)
class Material:
    """Input of an inspection."""

    #: the agent's inspection data, with its `inventory`, once received
    report: Mapping[str, Any] | None = None
    node: Mapping[str, object] = field(default_factory=dict)  # fields of the node
    ports: Sequence[Mapping[str, object]] = ()  # [{uuid, address, bound, ...}]; bound: has a VIF
    traits: Sequence[str] = ()
    # inspection rules, in the order of their application
    rules: Sequence[Mapping[str, object]] = ()
    before: Mapping[str, object] | None = None  # inventory of the previous inspection


@dataclass(frozen=True, slots=True)
class Inspected:
    """Data of an inspected machine, on which the service runs its hooks and rules."""

    inventory: Mapping[str, object]  # in the form of the agent's inventory
    plugin_data: Mapping[str, object]  # further data, of the agent's collectors
    hooks: Sequence[str]  # names of the hooks, in order
    partial: bool = False  # whether the inventory may lack any fact, as that of a BMC does


@dataclass(frozen=True, slots=True)
class BmcInventory:
    """Inventory that a BMC shows, which is recorded as it is, without hooks and rules."""

    inventory: Mapping[str, object]  # in the form of the agent's inventory
    unread_documents: Sequence[str] = ()  # paths of documents that the BMC did not return


# What an interface may call of the other interfaces of its node. `drivers.core.interface_kinds` has
# their descriptions, and `drivers.core.driver.interfaces_of` returns them whole.


class NodeInterface(Protocol):
    """Any interface."""

    name: ClassVar[str]

    def has(self, method: str) -> bool: ...
    def validate(self, target: "Target") -> None: ...


class NodeBoot(NodeInterface, Protocol):
    INSTANCE_NEXT: ClassVar[str]
    options: ClassVar[frozenset[str]]
    modes: ClassVar[tuple[str, ...]]

    def boot_agent_next(self, target: "Target") -> Outcome | None: ...
    def dhcp_options(self, target: "Target") -> Sequence[Mapping[str, object]]: ...
    def boot_instance_next(self, target: "Target") -> Outcome | None: ...
    def prepare_instance(self, target: "Target") -> Outcome | None: ...


class NodeDeploy(NodeInterface, Protocol):
    boot_option: ClassVar[str]


class NodeManagement(NodeInterface, Protocol):
    def before_start(self, target: "Target") -> None: ...
    def get_boot_mode(self, target: "Target") -> str | None: ...
    def get_secure_boot(self, target: "Target") -> bool | None: ...
    def mac_addresses(self, target: "Target") -> list[str]: ...
    def set_boot_device(self, target: "Target", device: str, persistent: bool = False) -> None: ...
    def set_boot_mode(self, target: "Target", mode: str) -> None: ...
    def set_secure_boot(self, target: "Target", state: bool) -> None: ...


class NodeNetwork(NodeInterface, Protocol):
    def configure_tenant_networks(self, target: "Target") -> Outcome | None: ...
    def remove_provisioning_network(self, target: "Target") -> Outcome | None: ...
    def validate_rescue(self, target: "Target") -> None: ...


class NodePower(NodeInterface, Protocol):
    bmcs: Bmcs

    @property
    def switches_off(self) -> bool: ...

    def change(self, target: "Target", state: str, timeout: float | None = None) -> Outcome: ...
    def get_power_state(self, target: "Target") -> str | None: ...
    def power_off(self, target: "Target") -> Outcome: ...
    def power_on(self, target: "Target") -> Outcome: ...
    def reboot(self, target: "Target") -> Outcome: ...


class NodeRaid(NodeInterface, Protocol):
    in_band: ClassVar[bool]


class NodeStorage(NodeInterface, Protocol):
    def should_write_image(self, target: "Target") -> bool: ...


class NodeDriver(Protocol):
    """The interfaces of a node, as far as other interfaces of the node call them."""

    @property
    def hardware_type(self) -> str: ...
    @property
    def boot(self) -> NodeBoot: ...
    @property
    def deploy(self) -> NodeDeploy: ...
    @property
    def management(self) -> NodeManagement: ...
    @property
    def network(self) -> NodeNetwork: ...
    @property
    def power(self) -> NodePower: ...
    @property
    def raid(self) -> NodeRaid: ...
    @property
    def storage(self) -> NodeStorage: ...

    def steps(self, flow: Flow, target: "Target | None" = None) -> list[Step]: ...


@dataclass(frozen=True, slots=True)
class Target:
    """A driver's view of a node."""

    uuid: str
    name: str | None
    driver: NodeDriver
    driver_info: Mapping[str, object] = field(default_factory=dict)
    driver_internal_info: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, object] = field(default_factory=dict)
    instance_info: Mapping[str, object] = field(default_factory=dict)
    extra: Mapping[str, object] = field(default_factory=dict)
    #: network configuration of the agent, OpenStack's links, networks and services; empty: DHCP
    network_data: Mapping[str, object] = field(default_factory=dict)
    power_state: str | None = None
    provision_state: str | None = None
    disable_power_off: bool = False
    nics: tuple[Nic, ...] = ()
    nic_groups: tuple[NicGroup, ...] = ()  # empty if the network interface keeps no VIFs
    volume_connectors: tuple[VolumeConnector, ...] = ()  # empty if the storage uses no volumes
    volume_targets: tuple[VolumeTarget, ...] = ()  # by boot_index; empty if the storage uses none
    agent: Agent = Agent()
    material: Material = Material()  # empty for steps of interfaces other than inspect
    #: the node as a JSON object: `params.node` of the agent's commands
    record: Mapping[str, Any] = field(default_factory=dict)
    options: Options = field(default_factory=dict)  # settings: options["group"]["name"]
    step_id: str = ""  # id of the step's row, equal for all its attempts; "" when unknown
    progress: Mapping[str, Any] = field(default_factory=dict)  # of the last `Wait`; empty at first
    resumed: bool = False  # the conductor of an earlier attempt of this step crashed
    crashes: int = 0  # number of attempts of this step that ended with a crash: no outcome recorded
    #: called right before each command to a BMC or agent that changes its state; raises LeaseLost
    before_order: Callable[[], None] = lambda: None
    #: keeps a progress of the step at once: a later attempt has it if this one crashes; raises
    #: LeaseLost
    keep_progress: Callable[[Mapping[str, Any]], None] = lambda _progress: None
    #: called after each request to the agent with its command, the agent's URL, the result (as in
    #: `bmc.Observe`) and the seconds
    observe_agent: Callable[[str, str, str, float], None] = lambda *_: None
    #: called with each exchange with the BMC (`drivers.core.recording.traffic`); None: the node's
    #: operations are not recorded
    record_exchange: Callable[[dict[str, object]], None] | None = None
    #: returns (name, driver_info) of all other nodes that have a text, such as a host, in their
    #: driver_info
    nodes_with: Callable[[str], Sequence[tuple[str, Mapping[str, object]]]] = lambda _text: ()
    #: networks and switches of the service, for network interfaces that configure switches
    switched_networks: SwitchedNetworks = field(default_factory=SwitchedNetworks)
    reports: dict[str, Any] = field(default_factory=dict)  # filled by `report`

    def report(self, **facts: Any) -> None:
        """
        Record facts about the machine; the worker writes them with the outcome of the step.

        Raises TypeError: `REPORTABLE` has no such fact.
        """
        for name, value in facts.items():
            if name in ("driver_internal_info", "properties", "agent_steps"):
                self.reports[name] = {**self.reports.get(name, {}), **value}
            elif name == "port_internal_info":
                reported = self.reports.setdefault(name, {})
                for uuid, changes in value.items():
                    reported[uuid] = {**reported.get(uuid, {}), **changes}
            elif name in REPORTABLE or name in ("agent_token", "hardware_manager_version"):
                self.reports[name] = value
            else:
                raise TypeError(f"a driver cannot report {name!r}")

    def internal_fact(self, key: str) -> Any:
        """Return a key of driver_internal_info, as this step has reported it, or as recorded."""
        reported = self.reports.get("driver_internal_info", {})
        return reported.get(key, self.driver_internal_info.get(key))

    def crashed_since(self, progress: Mapping[str, Any]) -> bool:
        """
        Whether an attempt crashed after a `Wait` with this progress, in which `crashes` was noted.

        An earlier crash has lost no order that the step sends after it. Without the note: whether
        any attempt crashed.
        """
        noted = progress.get("crashes")
        return self.resumed if noted is None else self.crashes > noted

    def forget_agent(self) -> None:
        """
        Report that the agent is gone, since the machine was powered off or reset.

        The worker deletes the agent's URL, certificate, cached steps and token. It keeps a token
        that was made beforehand for the boot medium, as Ironic does.
        """
        self.reports["agent"] = None

    def option(self, group: str, name: str) -> object:
        """Return a setting; a key of the same name in the node's driver_info overrides it."""
        return self.driver_info.get(name, self.options[group][name])

    def need(self, field_name: str) -> object:
        """
        Return a required key of driver_info.

        Raises InvalidDriverInfo: the key is missing or empty.
        """
        value = self.driver_info.get(field_name)
        if value in (None, ""):
            raise InvalidDriverInfo(f"driver_info/{field_name} is required and missing")
        return value


def run_parts(target: Target, parts: Mapping[str, Callable[[Target], Outcome | None]]) -> Outcome:
    """
    Run the parts of a step in order: `Done` after the last part, else the outcome of the first part
    that is not done.

    The progress of a part is kept under its name, beside the progress of the step itself. A call
    resumes at the last part that has progress, and skips the parts before it. A reported
    `agent_token` is recorded before the next part begins, since that part may start the machine.
    """
    names = list(parts)
    step_progress = {
        name: value
        for name, value in target.progress.items()
        if name not in parts and name != AWAITED  # the part says what it waits for
    }
    start = max((at for at, name in enumerate(names) if name in target.progress), default=0)
    outcome: Outcome = Done()
    for name in names[start:]:
        if name != names[start] and "agent_token" in target.reports:
            return Wait({**step_progress, name: {}}, poll_after=0)
        returned = parts[name](_part_target(target, name, step_progress))
        outcome = Done() if returned is None else returned
        if isinstance(outcome, Wait | Hold):
            return replace(outcome, progress={**step_progress, name: dict(outcome.progress)})
        if not isinstance(outcome, Done):
            return outcome
    return outcome


def _part_target(target: Target, name: str, step_progress: Mapping[str, Any]) -> Target:
    """Return the target of a part of a step, whose progress is kept beside that of the step."""

    def keep_progress(progress: Mapping[str, Any]) -> None:
        target.keep_progress({**step_progress, name: dict(progress)})

    part_progress = target.progress.get(name, {})
    return replace(target, progress=part_progress, keep_progress=keep_progress)
