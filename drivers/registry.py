"""
The registry: which hardware types there are, and which interfaces each accepts.

A hardware type is a class with a name and, per kind of interface, the interface classes it
accepts in order of preference. Ingot's own are listed in `drivers.builtin`; others come through
the entry point group `ingot.hardware_types`, each entry naming a `HardwareType` subclass.

A hardware type whose interface gives one non-zero priority to two steps of a flow is refused
(spec implement-cleaning-states); all others load.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, ClassVar

from drivers.bmc import Bmcs
from drivers.errors import InvalidDriverInfo
from drivers.interface import Interface
from drivers.interfaces import (
    KINDS,
    Boot,
    Deploy,
    Inspect,
    Management,
    Network,
    Power,
    Raid,
    Storage,
)
from drivers.steps import Flow, Step
from drivers.target import Target

ENTRY_POINTS = "ingot.hardware_types"


class HardwareType:
    """One value of `node.driver`, and the interfaces that nodes of that driver may use."""

    name: ClassVar[str]
    interfaces: ClassVar[Mapping[str, Sequence[type[Interface]]]]


@dataclass(frozen=True, slots=True)
class Driver:
    """The interfaces that one node uses, by kind."""

    hardware_type: str
    by_kind: Mapping[str, Interface]

    @property
    def power(self) -> Power:
        return self.by_kind["power"]  # type: ignore[return-value]

    @property
    def management(self) -> Management:
        return self.by_kind["management"]  # type: ignore[return-value]

    @property
    def boot(self) -> Boot:
        return self.by_kind["boot"]  # type: ignore[return-value]

    @property
    def deploy(self) -> Deploy:
        return self.by_kind["deploy"]  # type: ignore[return-value]

    @property
    def inspect(self) -> Inspect:
        return self.by_kind["inspect"]  # type: ignore[return-value]

    @property
    def network(self) -> Network:
        return self.by_kind["network"]  # type: ignore[return-value]

    @property
    def storage(self) -> Storage:
        return self.by_kind["storage"]  # type: ignore[return-value]

    @property
    def raid(self) -> Raid:
        return self.by_kind["raid"]  # type: ignore[return-value]

    def steps(self, flow: Flow, target: Target | None = None) -> list[Step]:
        """Every step of a flow that the interfaces offer themselves, unsorted."""
        return [step for each in self.by_kind.values() for step in each.get_steps(target, flow)]


@dataclass(slots=True)
class Registry:
    """
    The hardware types that this process can drive.

    types: name -> kind -> interface name -> interface, in order of preference.
    refused: name -> why it did not load.
    """

    types: dict[str, dict[str, dict[str, Interface]]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    _drivers: dict[tuple[str, ...], Driver] = field(default_factory=dict)

    def supported(self, hardware_type: str, kind: str) -> list[str]:
        """Names of the interfaces of a kind, the default first. Raises InvalidDriverInfo."""
        return list(self._type(hardware_type)[kind])

    def default(self, hardware_type: str, kind: str) -> str:
        return next(iter(self._type(hardware_type)[kind]))

    def driver(self, hardware_type: str, chosen: Mapping[str, str | None]) -> Driver:
        """
        The driver of a node: `chosen` maps kinds to interface names; what is missing or None
        gets the hardware type's default.

        Raises InvalidDriverInfo naming the unknown driver or interface and what would be right.
        """
        kinds = self._type(hardware_type)
        names = tuple(chosen.get(kind) or next(iter(kinds[kind])) for kind in kinds)
        key = (hardware_type, *names)
        if key not in self._drivers:
            by_kind = {}
            for kind, name in zip(kinds, names, strict=True):
                if name not in kinds[kind]:
                    raise InvalidDriverInfo(
                        f"{kind}_interface: Could not find the following interface in the"
                        f" 'ironic.hardware.interfaces.{kind}' entrypoint: {name}. Valid interfaces"
                        f" are {[*kinds[kind]]}; those are what driver {hardware_type} has."
                    )
                by_kind[kind] = kinds[kind][name]
            self._drivers[key] = Driver(hardware_type, by_kind)
        return self._drivers[key]

    def _type(self, name: str) -> dict[str, dict[str, Interface]]:
        if name in self.types:
            return self.types[name]
        why = self.refused.get(name)
        known = ", ".join(sorted(self.types)) or "none"
        raise InvalidDriverInfo(
            f"driver {name!r} did not load: {why}"
            if why
            else f"driver: there is no driver {name!r}; loaded are {known}"
        )


def load(
    enabled_types: Sequence[str] | None = None,
    enabled_interfaces: Mapping[str, Sequence[str]] | None = None,
    defaults: Mapping[str, str | None] | None = None,
    bmcs: Bmcs | None = None,
    extra: Iterable[type[HardwareType]] = (),
) -> Registry:
    """
    Load Ingot's hardware types, those of entry points, and `extra`.

    enabled_types: the only names to load; None loads all.
    enabled_interfaces: kind -> the only interface names to accept; a missing kind accepts all.
    defaults: kind -> the interface that is the default wherever a type accepts it.
    """
    from drivers.builtin import HARDWARE_TYPES

    registry = Registry()
    connections = bmcs or Bmcs()
    candidates: list[tuple[str, Any]] = [(each.name, each) for each in HARDWARE_TYPES]
    candidates += [(entry.name, entry) for entry in entry_points(group=ENTRY_POINTS)]
    candidates += [(each.name, each) for each in extra]
    for name, candidate in candidates:
        if enabled_types is not None and name not in enabled_types:
            continue
        try:
            hardware_type = candidate if isinstance(candidate, type) else candidate.load()
            registry.types[name] = _instantiate(
                hardware_type, enabled_interfaces or {}, defaults or {}, connections
            )
        except Exception as error:  # somebody else's code: one bad type must not stop the others
            registry.refused[name] = str(error) or repr(error)
    for name in enabled_types or ():
        if name not in registry.types and name not in registry.refused:
            registry.refused[name] = "there is no hardware type of that name"
    return registry


def _instantiate(
    hardware_type: type[HardwareType],
    enabled: Mapping[str, Sequence[str]],
    defaults: Mapping[str, str | None],
    bmcs: Bmcs,
) -> dict[str, dict[str, Interface]]:
    """kind -> name -> interface. Raises ValueError for overlapping priorities or no interface."""
    result: dict[str, dict[str, Interface]] = {}
    for kind in KINDS:
        classes = [
            cls
            for cls in hardware_type.interfaces.get(kind, ())
            if kind not in enabled or cls.name in enabled[kind]
        ]
        if not classes:
            raise ValueError(f"no enabled {kind} interface is one that it accepts")
        classes.sort(key=lambda cls: cls.name != defaults.get(kind))
        result[kind] = {}
        for cls in classes:
            _refuse_overlaps(cls)
            interface = cls()
            interface.bmcs = bmcs
            result[kind][cls.name] = interface
    return result


def _refuse_overlaps(cls: type[Interface]) -> None:
    for flow in Flow:
        taken: dict[float, str] = {}
        for step in cls.steps.values():
            priority = step.priorities.get(flow, 0)
            if priority and priority in taken:
                raise ValueError(
                    f"{cls.kind} interface {cls.name!r}: the {flow} steps {taken[priority]!r} and"
                    f" {step.name!r} both have priority {priority:g}"
                )
            taken[priority] = step.name
