"""Redfish: BIOS settings."""

from typing import Any

from drivers.errors import InvalidDriverInfo, NotSupported, Refused, Unexpected
from drivers.interfaces import Bios
from drivers.redfish import client
from drivers.redfish.interface import Redfish
from drivers.redfish.restart import through_restart
from drivers.steps import Done, Outcome, step
from drivers.target import Target

#: our name of what a registry says of a setting -> sushy's
_REGISTRY = (
    "attribute_type", "lower_bound", "upper_bound", "min_length", "max_length", "read_only",
    "reset_required", "unique",
)  # fmt: skip


class RedfishBios(Redfish, Bios):
    """The Bios resource of the system, and the registry that describes it."""

    @step(clean=0, verify=1)
    def cache_bios_settings(self, target: Target) -> Outcome:
        """Read the BIOS settings; a BMC that does not tell them is no reason to fail."""
        try:
            self._read(target, described=True)
        except (NotSupported, Refused, Unexpected) as error:
            return Done({"skipped": str(error)})
        return Done()

    @step(clean=0, deploy=0, service=0, args=(Bios.SETTINGS,))
    def apply_configuration(self, target: Target, settings: list[dict[str, Any]]) -> Outcome:
        """Change BIOS settings; nothing is sent, nor restarted, when they are so already."""
        wanted = {each["name"]: each["value"] for each in settings}
        if not target.progress:
            now = self._read(target)
            unknown = sorted(set(wanted) - set(now))
            if unknown:
                raise InvalidDriverInfo(f"settings: the BIOS has no {', '.join(unknown)}")
            if all(_same(now[name], value) for name, value in wanted.items()):
                return Done()

        def order() -> None:
            with client.turn(target, self.bmcs) as bmc:
                bmc.system(fresh=False).bios.set_attributes(wanted)

        def settled() -> bool:
            now = self._read(target)
            return all(_same(now.get(name), value) for name, value in wanted.items())

        return self._change(target, order, settled)

    @step(clean=0, deploy=0, service=0)
    def factory_reset(self, target: Target) -> Outcome:
        """Give every BIOS setting its default again."""

        def order() -> None:
            with client.turn(target, self.bmcs) as bmc:
                bmc.system(fresh=False).bios.reset_bios()

        return self._change(target, order, lambda: True)

    def _change(self, target: Target, order: Any, settled: Any) -> Outcome:
        outcome = through_restart(target, order, settled)
        if isinstance(outcome, Done):
            self._read(target, described=True)
        return outcome

    def _read(self, target: Target, *, described: bool = False) -> dict[str, Any]:
        """name -> value; described: with what the registry says, and reported."""
        with client.turn(target, self.bmcs) as bmc:
            bios = bmc.bios()
            attributes = dict(bios.attributes or {})
            registry = bios.get_attribute_registry() if described else None
        if described:
            known = {each.name: each for each in _entries(registry)}
            target.report(
                bios_settings=[
                    {"name": name, "value": value, **_facts(known.get(name))}
                    for name, value in sorted(attributes.items())
                ]
            )
        return attributes


def _entries(registry: Any) -> Any:
    return registry.registry_entries.attributes or () if registry is not None else ()


def _facts(entry: Any) -> dict[str, Any]:
    if entry is None:
        return {}
    choices = [each["ValueName"] for each in entry.allowable_values or ()]
    facts = {name: getattr(entry, name, None) for name in _REGISTRY}
    return {**facts, "allowable_values": choices}


def _same(now: Any, wanted: Any) -> bool:
    """Callers may write a number as text."""
    return str(now) == str(wanted)
