"""Redfish: BIOS settings."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from drivers.core.errors import InvalidDriverInfo, NotSupported, Refused, Unexpected
from drivers.core.interface_kinds import Bios
from drivers.core.steps import Done, Outcome, Resume, Wait, step
from drivers.core.target import Target, run_parts
from drivers.redfish.bios_values import Setting, registry, same
from drivers.redfish.changes.orders import Order, Request
from drivers.redfish.changes.restart import carry_out
from drivers.redfish.interface import Redfish
from drivers.redfish.transport import client, navigation
from drivers.redfish.transport.client import Connection
from drivers.redfish.transport.conversions import entry, link_path, printable, text
from drivers.redfish.transport.messages import messages, words

#: Most settings that are recorded, each as a row.
MOST = 5_000
#: Most settings that are recorded with an order.
MOST_NAMED = 200


class RedfishBios(Redfish, Bios):
    """BIOS settings by the Bios resource of the system and its attribute registry."""

    @step(clean=0, verify=1, needs_ramdisk=False)
    def cache_bios_settings(self, target: Target) -> Outcome:
        """Read the BIOS settings; skipped if the BMC does not report them."""
        try:
            self._read(target)
        except (NotSupported, Refused, Unexpected) as error:
            return Done({"skipped": str(error)})
        return Done()

    @step(
        clean=0,
        deploy=0,
        service=0,
        args=(Bios.SETTINGS,),
        needs_ramdisk=False,
        resume=Resume.PROBE,
    )
    def apply_configuration(self, target: Target, settings: list[dict[str, object]]) -> Outcome:
        """Change BIOS settings, and restart the machine, unless they have these values already."""
        if "values" not in target.progress:
            values, other_names = self._plan(target, settings)
            return Wait({"values": values, "applied_too": other_names}, 0) if values else Done()
        outcome = self._change(target, Change(target.progress["values"]))
        other_names = target.progress["applied_too"]
        return (
            Done({"applied_too": other_names})
            if isinstance(outcome, Done) and other_names
            else outcome
        )

    @step(clean=0, deploy=0, service=0, needs_ramdisk=False, resume=Resume.PROBE)
    def factory_reset(self, target: Target) -> Outcome:
        """Reset all BIOS settings to their defaults, and restart the machine."""
        return self._change(target, Reset())

    def _plan(
        self, target: Target, settings: list[dict[str, Any]]
    ) -> tuple[dict[str, object], list[str]]:
        """
        Return the values to order, {} if they are set, and the names of other pending settings.

        Raises InvalidDriverInfo: names a setting that cannot be changed to its value.
        """
        with client.turn(target, self.bmcs) as bmc:
            document = _bios(bmc)
            entries = registry(bmc, document)
            pending = _pending(bmc, document)
        current_values, values = _attributes(document), dict[str, Any]()
        unknown_names = sorted({setting["name"] for setting in settings} - set(current_values))
        if unknown_names:
            raise InvalidDriverInfo(f"settings: the BIOS has no {', '.join(unknown_names)}")
        for setting in settings:
            name = setting["name"]
            value = Setting(name, current_values[name], entries.get(name, {})).converted(
                setting["value"]
            )
            if name in values and not same(values[name], value):
                raise InvalidDriverInfo(f"settings: {name} has two values")
            values[name] = value
        # a pending change would undo the present value at the restart
        expected_values = {**current_values, **pending}
        if all(same(value, current_values[name]) and same(value, expected_values[name])
               for name, value in values.items()):  # fmt: skip
            return {}, []
        other_names = {
            name for name, value in pending.items()
            if name not in values and not same(value, current_values.get(name))
        }  # fmt: skip
        return values, sorted(other_names)[:MOST_NAMED]

    def _change(self, target: Target, order: Order) -> Outcome:
        run = partial(carry_out, bmcs=self.bmcs, order=order, needs_restart=lambda _record: True)
        outcome = run_parts(target, {"change": run})
        if isinstance(outcome, Done):
            self._read(target)
        return outcome

    def _read(self, target: Target) -> None:
        """Read settings and descriptions, and report them."""
        with client.turn(target, self.bmcs) as bmc:
            document = _bios(bmc)
            entries, attributes = registry(bmc, document), _attributes(document)
        target.report(
            bios_settings=[
                {
                    "name": name,
                    "value": printable(value) if isinstance(value, str) else value,
                    **Setting(name, value, entries.get(name, {})).shown(),
                }
                for name, value in sorted(attributes.items())[:MOST]
                if text(name) == name
            ]
        )


class Change(Order):
    """Change of BIOS settings; values: by name, converted."""

    is_repeatable: ClassVar[bool] = True  # the pending settings show whether the BMC has it

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values
        self.subject = f"the change of BIOS setting{'s' * (len(values) > 1)} {', '.join(values)}"

    def facts(self, bmc: Connection) -> dict[str, Any]:
        return {}

    def request(self, bmc: Connection) -> Request:
        document = _bios(bmc)
        settings = entry(document, "@Redfish.Settings")
        body: dict[str, object] = {"Attributes": dict(self._values)}
        times = entry(settings, "SupportedApplyTimes")
        if isinstance(times, list) and "OnReset" in times:
            # without it, an iDRAC keeps the values as pending and plans no change
            kind = "#Settings.v1_0_0.PreferredApplyTime"
            body["@Redfish.SettingsApplyTime"] = {"@odata.type": kind, "ApplyTime": "OnReset"}
        path = _settings_path(document) or _path(bmc)
        return Request("PATCH", path, body, text(entry(settings, "ETag")))

    def difference(self, bmc: Connection, facts: Mapping[str, Any]) -> str:
        document = _bios(bmc)
        current_values = _attributes(document)
        mismatches = [
            f"{name} is {current_values.get(name)!r:.100}, not {value!r:.100}"
            for name, value in self._values.items()
            if not same(value, current_values.get(name))
        ]
        bmc_messages = messages(entry(document, "@Redfish.Settings"))
        reasons = words([message for message in bmc_messages if message.is_error])
        return ", ".join(mismatches) + (f" ({reasons})" if mismatches and reasons else "")

    def was_taken(self, bmc: Connection, facts: Mapping[str, Any]) -> bool:
        document = _bios(bmc)
        path = _settings_path(document)
        pending = {} if path is None else _attributes(bmc.document(path))
        expected_values = {**_attributes(document), **pending}
        return all(same(value, expected_values.get(name)) for name, value in self._values.items())


class Reset(Order):
    """Reset of all BIOS settings."""

    subject = "the reset of the BIOS settings"

    def facts(self, bmc: Connection) -> dict[str, Any]:
        """Read the defaults of settings that have other values; they are known with a registry."""
        document = _bios(bmc)
        current_values, entries = _attributes(document), registry(bmc, document)
        changed_values = {
            name: facts["DefaultValue"]
            for name, facts in sorted(entries.items())
            if name in current_values
            and entry(facts, "ReadOnly") is not True
            and isinstance(facts.get("DefaultValue"), bool | int | float | str)
            and not same(facts["DefaultValue"], current_values[name])
        }
        defaults = dict(list(changed_values.items())[:MOST_NAMED])
        return {"defaults": defaults, "has_registry": bool(entries)}

    def request(self, bmc: Connection) -> Request:
        action = entry(_bios(bmc), "Actions", "#Bios.ResetBios")
        path = text(entry(action, "target"))
        if path is None or not path.startswith("/"):
            raise NotSupported(f"BMC {bmc.access.address} cannot reset its BIOS settings")
        return Request("POST", path, None)

    def instead(
        self, request: Request, facts: Mapping[str, object], refusal: str
    ) -> Request | None:
        """Send an empty object if the BMC refuses a request without a body."""
        is_refused = refusal.startswith(("400", "411", "415"))
        return replace(request, body={}) if is_refused and request.body is None else None

    def difference(self, bmc: Connection, facts: Mapping[str, Any]) -> str:
        """Compare the settings that had other values; a BIOS may keep some, but not all."""
        current_values, defaults = _attributes(_bios(bmc)), facts["defaults"]
        if not defaults or any(same(defaults[name], current_values.get(name)) for name in defaults):
            return ""
        return f"no setting was reset, {next(iter(defaults))} among them"

    def shows_at_restart(self, facts: Mapping[str, object]) -> bool:
        return bool(facts["has_registry"])

    def was_taken(self, bmc: Connection, facts: Mapping[str, Any]) -> bool:
        pending = entry(_bios(bmc), "ResetBiosToDefaultsPending")
        return pending is True or bool(facts["defaults"] and not self.difference(bmc, facts))


def _path(bmc: Connection) -> str:
    """Return the path of the system's Bios resource. Raises NotSupported: it has no BIOS."""
    path = navigation.link(bmc.system(fresh=False), "bios")
    if path is None:
        raise NotSupported(f"{bmc.path} has no bios")
    return path


def _bios(bmc: Connection) -> Mapping[str, object]:
    return bmc.document(_path(bmc))


def _attributes(document: Mapping[str, object]) -> dict[str, object]:
    attributes = entry(document, "Attributes")
    return dict(attributes) if isinstance(attributes, Mapping) else {}


def _settings_path(document: Mapping[str, object]) -> str | None:
    """Return the path of the settings resource; without it, changes go to the BIOS resource."""
    path = link_path(document, "@Redfish.Settings", "SettingsObject")
    return path if path and path.startswith("/") else None


def _pending(bmc: Connection, document: Mapping[str, object]) -> dict[str, object]:
    path = _settings_path(document)
    return _attributes(bmc.find(path) or {}) if path else {}
