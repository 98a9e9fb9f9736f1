"""Redfish: BIOS settings."""

from typing import Any

from drivers.core.errors import InvalidDriverInfo, NotSupported, Refused, Unexpected
from drivers.core.kinds import Bios
from drivers.core.steps import Done, Outcome, step
from drivers.core.target import Target
from drivers.redfish import client
from drivers.redfish.interface import Redfish
from drivers.redfish.restart import through_restart
from drivers.redfish.values import entry, number, printable, text

#: Numeric and boolean facts of a setting in the attribute registry.
_NUMBERS = ("lower_bound", "upper_bound", "min_length", "max_length")
_FLAGS = ("read_only", "reset_required", "unique")
#: Largest number of the database columns.
_BOUND = 2**31 - 1
#: Most settings that are recorded, each as a row.
MOST = 5_000


class RedfishBios(Redfish, Bios):
    """BIOS settings by the Bios resource of the system and its attribute registry."""

    @step(clean=0, verify=1, needs_ramdisk=False)
    def cache_bios_settings(self, target: Target) -> Outcome:
        """Read the BIOS settings; skipped if the BMC does not report them."""
        try:
            self._read(target, described=True)
        except (NotSupported, Refused, Unexpected) as error:
            return Done({"skipped": str(error)})
        return Done()

    @step(clean=0, deploy=0, service=0, args=(Bios.SETTINGS,), needs_ramdisk=False)
    def apply_configuration(self, target: Target, settings: list[dict[str, Any]]) -> Outcome:
        """Change BIOS settings, and restart the machine, unless they have these values already."""
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

    @step(clean=0, deploy=0, service=0, needs_ramdisk=False)
    def factory_reset(self, target: Target) -> Outcome:
        """Reset all BIOS settings to their defaults, and restart the machine."""

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
        """
        Read the values of all settings, by name.

        described: also read the attribute registry, and report settings and descriptions.
        """
        known: dict[str, dict[str, Any]] = {}
        with client.turn(target, self.bmcs) as bmc:
            bios = bmc.bios()
            attributes = dict(bios.attributes or {})
            if described:
                with bmc.skip_unreadable(f"{bios.path} AttributeRegistry"):
                    known = _described(bios.get_attribute_registry())
        if described:
            target.report(
                bios_settings=[
                    {
                        "name": name,
                        "value": printable(value) if isinstance(value, str) else value,
                        **known.get(name, {}),
                    }
                    for name, value in sorted(attributes.items())[:MOST]
                    if text(name) == name
                ]
            )
        return attributes


def _described(registry: Any) -> dict[str, dict[str, Any]]:
    """Return the facts of each setting in the attribute registry, by name; {} without registry."""
    entries = registry.registry_entries.attributes if registry is not None else ()
    return {each.name: _facts(each) for each in entries or ()}


def _facts(each: Any) -> dict[str, Any]:
    choices = each.allowable_values if isinstance(each.allowable_values, list) else []
    names = [entry(choice, "ValueName") for choice in choices]
    numbers = {name: number(getattr(each, name), -_BOUND, _BOUND) for name in _NUMBERS}
    flags = {name: getattr(each, name) for name in _FLAGS}
    return {
        "attribute_type": text(each.attribute_type),
        "allowable_values": [name for name in names if isinstance(name, str)],
        **numbers,
        **flags,
    }


def _same(now: Any, wanted: Any) -> bool:
    """Compare two values as text, since callers may write a number as text."""
    return str(now) == str(wanted)
