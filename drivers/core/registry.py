"""
The registry of hardware types and their interfaces.

A hardware type is a class with a name and, per kind of interface, the interface classes it
accepts in order of preference. The built-in ones (`drivers.builtin`) are arguments of `load`;
others come from the entry point group `ingot.hardware_types`, whose entries name `HardwareType`
subclasses.

A hardware type is refused if two steps of an interface have the same non-zero priority in a flow,
by declaration or by settings (spec implement-cleaning-states), if a method overrides a step and is
none, or if a frame names a missing method. The other hardware types still load.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from itertools import chain
from typing import Any

from drivers.core import overridden_steps, priorities
from drivers.core.bmc import Bmcs
from drivers.core.driver import Driver, HardwareType
from drivers.core.errors import InvalidDriverInfo
from drivers.core.interface import Interface
from drivers.core.interface_kinds import KINDS
from drivers.core.kinds.deploy import Deploy
from drivers.core.steps import Flow
from drivers.core.target import Options

ENTRY_POINTS = "ingot.hardware_types"


@dataclass(slots=True)
class Registry:
    """The hardware types that this process has loaded."""

    #: name -> kind -> interface name -> interface, in order of preference
    types: dict[str, dict[str, dict[str, Interface]]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)  # name -> reason
    bmcs: Bmcs = field(default_factory=Bmcs)  # of all its interfaces
    _drivers: dict[tuple[str, ...], Driver] = field(default_factory=dict)

    def supported(self, hardware_type: str, kind: str) -> list[str]:
        """
        Return the names of a kind's interfaces, the default first.

        Raises InvalidDriverInfo: the hardware type is not loaded.
        """
        return list(self._type(hardware_type)[kind])

    def default(self, hardware_type: str, kind: str) -> str:
        return next(iter(self._type(hardware_type)[kind]))

    def driver(
        self,
        hardware_type: str,
        interface_names: Mapping[str, str | None],
        instance_info: Mapping[str, Any] | None = None,
    ) -> Driver:
        """
        Return the driver of a node.

        interface_names: kind -> interface name; None or missing: the hardware type's default.
        instance_info: of the node, by which an interface may choose another one in its place.

        Raises InvalidDriverInfo: names the unknown driver or interface, and the known ones.
        """
        kinds = self._type(hardware_type)
        names = tuple(interface_names.get(kind) or next(iter(kinds[kind])) for kind in kinds)
        key = (hardware_type, *names)
        if key not in self._drivers:
            by_kind: dict[str, Any] = {}  # `load` has checked that each is of its kind
            for kind, name in zip(kinds, names, strict=True):
                if name not in kinds[kind]:
                    raise InvalidDriverInfo(
                        f"{kind}_interface: Could not find the following interface in the"
                        f" 'ironic.hardware.interfaces.{kind}' entrypoint: {name}. Valid interfaces"
                        f" are {[*kinds[kind]]}; those are what driver {hardware_type} has."
                    )
                by_kind[kind] = kinds[kind][name]
            self._drivers[key] = Driver(hardware_type, **by_kind)
        driver = self._drivers[key]
        stand_ins = {
            kind: stand_in
            for kind, interface in driver.by_kind.items()
            if instance_info and (stand_in := interface.stand_in(instance_info))
        }
        if stand_ins:
            return self.driver(hardware_type, {**interface_names, **stand_ins})
        return driver

    def _type(self, name: str) -> dict[str, dict[str, Interface]]:
        if name in self.types:
            return self.types[name]
        reason = self.refused.get(name)
        loaded_names = ", ".join(sorted(self.types)) or "none"
        raise InvalidDriverInfo(
            f"driver {name!r} did not load: {reason}"
            if reason
            else f"driver: there is no driver {name!r}; loaded are {loaded_names}. A driver has to"
            " be installed where the API and the conductors run, before they start"
        )


class UnknownName(ValueError):
    """A setting names an unknown hardware type or interface; the message is one line."""


def load(  # noqa: PLR0917 - one argument per group of settings
    hardware_types: Iterable[type[HardwareType]],
    enabled_types: Sequence[str] | None = None,
    enabled_interfaces: Mapping[str, Sequence[str]] | None = None,
    defaults: Mapping[str, str] | None = None,
    bmcs: Bmcs | None = None,
    options: Options | None = None,
) -> Registry:
    """
    Load hardware types.

    hardware_types: the built-in ones; an entry point of the same name replaces one.
    enabled_types: names to load; by default all.
    enabled_interfaces: kind -> interface names to accept; missing kind: all that are not `opt_in`.
    defaults: kind -> default interface of all hardware types that accept it.
    options: settings by group and name; some override priorities of steps.

    Raises UnknownName: a setting names an unknown hardware type or interface. Ignoring it would
    silently give nodes another interface.
    """
    enabled, defaults = enabled_interfaces or {}, defaults or {}
    candidates = _candidates(hardware_types)
    for name in enabled_types or ():
        if name not in candidates:
            raise UnknownName(
                f"[DEFAULT]enabled_hardware_types: there is no hardware type {name!r};"
                f" installed are {', '.join(sorted(candidates))}"
            )
    registry = Registry(bmcs=bmcs or Bmcs())
    known_names: dict[str, dict[str, bool]] = {kind: {} for kind in KINDS}
    enabled_names = candidates if enabled_types is None else enabled_types
    classes = _classes(candidates, enabled_names, known_names, registry.refused)
    if _unknown(enabled, defaults, known_names):  # a type that is not enabled may have it
        _classes(candidates, candidates.keys() - set(enabled_names), known_names, {})
    if problem := _unknown(enabled, defaults, known_names):
        reasons = (f"; hardware type {name}: {reason}" for name, reason in registry.refused.items())
        raise UnknownName("".join((problem, *reasons)))
    checked_classes: set[type[Interface]] = set()
    for name, hardware_type in classes.items():
        try:
            interfaces = _instantiate(
                hardware_type, enabled, defaults, registry.bmcs, options, checked_classes
            )
            _check_frames(name, interfaces)
            registry.types[name] = interfaces
        except Exception as error:  # a defect of one driver must not stop the others
            registry.refused[name] = str(error) or repr(error)
    return registry


def _candidates(hardware_types: Iterable[type[HardwareType]]) -> dict[str, object]:
    """Return hardware types and entry points of hardware types, by name."""
    return {
        **{hardware_type.name: hardware_type for hardware_type in hardware_types},
        **{entry.name: entry for entry in entry_points(group=ENTRY_POINTS)},
    }


def _classes(
    candidates: Mapping[str, Any],
    enabled_names: Iterable[str],
    known_names: dict[str, dict[str, bool]],
    refusals: dict[str, str],
) -> dict[str, type[HardwareType]]:
    """
    Import the wanted candidates.

    Adds the names of their interfaces to `known_names`, with whether they are `opt_in`, and reasons
    of failed imports to `refusals`.
    """
    classes = {}
    for name in enabled_names:
        candidate = candidates[name]
        try:
            hardware_type: type[HardwareType] = (
                candidate if isinstance(candidate, type) else candidate.load()
            )
            names = {
                kind: {cls.name: cls.opt_in for cls in hardware_type.interfaces.get(kind, ())}
                for kind in KINDS
            }
        except Exception as error:  # as in `load`
            refusals[name] = str(error) or repr(error)
            continue
        classes[name] = hardware_type
        for kind in KINDS:
            known_names[kind].update(names[kind])
    return classes


def _unknown(
    enabled: Mapping[str, Sequence[str]],
    defaults: Mapping[str, str],
    known_names: Mapping[str, Mapping[str, bool]],
) -> str | None:
    """Describe the first setting that names an unknown or disabled interface; None if all agree."""
    for kind in KINDS:
        for name in enabled.get(kind, ()):
            if name not in known_names[kind]:
                return (
                    f"[DEFAULT]enabled_{kind}_interfaces: there is no {kind} interface {name!r};"
                    f" installed are {', '.join(sorted(known_names[kind]))}"
                )
        usual_names = sorted(name for name, opt_in in known_names[kind].items() if not opt_in)
        default, accepted_names = defaults.get(kind), enabled.get(kind) or usual_names
        if default and default not in accepted_names:
            return (
                f"[DEFAULT]default_{kind}_interface: there is no enabled {kind} interface"
                f" {default!r}; enabled are {', '.join(accepted_names)}"
            )
    return None


def _instantiate(  # noqa: PLR0917 - as `load`, which passes them on
    hardware_type: type[HardwareType],
    enabled: Mapping[str, Sequence[str]],
    defaults: Mapping[str, str],
    bmcs: Bmcs,
    options: Options | None,
    checked_classes: set[type[Interface]],
) -> dict[str, dict[str, Interface]]:
    """
    Instantiate the accepted interfaces of a hardware type: kind -> name -> interface.

    checked_classes: classes that were found right in other hardware types; adds the classes of this
    one.

    Raises ValueError: overlapping priorities, hidden steps, methods that cannot be called, a class
    of another kind, or a kind without an interface.
    """
    result: dict[str, dict[str, Interface]] = {}
    for kind in KINDS:
        classes = [
            cls
            for cls in hardware_type.interfaces.get(kind, ())
            if (cls.name in enabled[kind] if kind in enabled else not cls.opt_in)
        ]
        if not classes:
            raise ValueError(f"no enabled {kind} interface is one that it accepts")
        classes.sort(key=lambda cls: cls.name != defaults.get(kind))
        result[kind] = {}
        for cls in classes:
            if not issubclass(cls, KINDS[kind]):
                raise ValueError(
                    f"{cls.__name__} is listed as a {kind} interface, but is no subclass of"
                    f" {KINDS[kind].__name__}"
                )
            interface = cls()
            interface.bmcs = bmcs
            if cls not in checked_classes:
                _refuse_overlaps(cls, options)
                _refuse_hidden(cls)
                overridden_steps.check(interface)
                checked_classes.add(cls)
            result[kind][cls.name] = interface
    return result


def _check_frames(hardware_type: str, interfaces: Mapping[str, Mapping[str, Interface]]) -> None:
    """
    Check that the methods of all frame steps exist.

    The owner of the frame runs steps of its kind. Steps of another kind must exist in every
    interface that a node may choose.

    Raises ValueError: names the frame and the missing method.
    """
    for owner in chain.from_iterable(
        interface_group.values() for interface_group in interfaces.values()
    ):
        for flow, frame in owner.frames.items():
            for kind, method in frame.rows():
                subject = (
                    f"hardware type {hardware_type!r}: the {flow} frame of {owner.kind} interface"
                    f" {owner.name!r} names {kind}.{method}"
                )
                if kind not in interfaces:
                    raise ValueError(f"{subject}; kinds of interfaces are {', '.join(interfaces)}")
                for interface in [owner] if kind == owner.kind else interfaces[kind].values():
                    if not callable(getattr(interface, method, None)):
                        raise ValueError(
                            f"{subject}, which {kind} interface {interface.name!r} does not have"
                        )


def _refuse_overlaps(cls: type[Interface], options: Options | None) -> None:
    for flow in Flow:
        try:
            priorities.refuse_ties(_priorities(cls, flow, options))
        except ValueError as error:
            raise ValueError(
                f"{cls.kind} interface {cls.name!r}: the {flow} steps {error}"
            ) from None


def _refuse_hidden(cls: type[Interface]) -> None:
    """
    Refuse a method that overrides a step, of any flow, and is no step: it would never run.

    Likewise a `deploy` that is no step, as nothing would be deployed. A name that is set to None
    leaves the step out on purpose, and a list of steps of the interface may name any method.
    """
    for base in cls.__mro__[1:]:
        hidden_steps = {name: step.priorities for name, step in getattr(base, "steps", {}).items()}
        if base is Deploy:
            hidden_steps["deploy"] = {Flow.DEPLOY: 0}
        for name, flows in hidden_steps.items():
            owner = next(ancestor for ancestor in cls.__mro__ if name in vars(ancestor))
            is_replaced = owner is not base and vars(owner)[name] is not None
            if is_replaced and name not in cls.steps and not all(map(cls.lists, flows)):
                raise ValueError(
                    f"{cls.kind} interface {cls.name!r}: {owner.__name__}.{name} overrides the step"
                    f" {cls.kind}.{name} of {base.__name__}, and is no step: decorate it with"
                    f" @step, @clean_step or @deploy_step, rename it, or leave the step out with"
                    f" `{name} = None`"
                )


def _priorities(
    cls: type[Interface], flow: Flow, options: Options | None
) -> Iterator[priorities.Priority]:
    """
    Yield the priorities of an interface's steps.

    Includes the agent's steps that a setting gives a priority; the others are unknown here.
    """
    step_priorities = {
        step.name: step.priorities[flow] for step in cls.steps.values() if flow in step.priorities
    }
    settings = cls.priority_settings if flow is Flow.CLEAN else {}
    for name in {**step_priorities, **settings}:
        setting = settings.get(name, "")
        override = priorities.overridden(options, flow, f"{cls.kind}.{name}") if options else None
        if override:
            yield name, *override
        elif options and options["deploy"].get(setting) is not None:
            yield name, options["deploy"][setting], f"[deploy]{setting}"
        elif name in step_priorities:
            yield name, step_priorities[name], None
