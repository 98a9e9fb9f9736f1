"""Redfish: power."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from drivers.core.errors import Busy, HardwareError, NotSupported, Refused, Unconfirmed
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, REBOOT, SOFT_OFF, SOFT_REBOOT, Power
from drivers.core.target import Target
from drivers.redfish.interface import Redfish
from drivers.redfish.sweep import open_reader
from drivers.redfish.transport import client
from drivers.redfish.transport.conversions import by_word, ironic_power_state, text

if TYPE_CHECKING:
    from sushy.exceptions import HTTPError


#: Argument of `order` -> equivalent ResetTypes, the preferred first. A soft power off is the last
#: resort of a BMC without ForceOff: its effect is read afterwards.
RESETS: Mapping[str, tuple[str, ...]] = {
    POWER_ON: ("On", "ForceOn", "PushPowerButton"),
    POWER_OFF: ("ForceOff", "GracefulShutdown"),
    SOFT_OFF: ("GracefulShutdown", "PushPowerButton"),
    REBOOT: ("ForceRestart", "PowerCycle"),
}
#: Order by the power button, which toggles -> PowerState that gives it this effect.
_BUTTON: Mapping[str, str] = {POWER_ON: "Off", SOFT_OFF: "On"}
#: Statuses of refusals that may be due to a transition, unless the message is one of `_FINAL`.
_TRANSIENT = frozenset({400, 408, 409, 412, 423, 425, 429, 503})
#: Messages of DMTF's base registry: the BMC lacks the reset type.
_LACKING = frozenset({
    "ActionParameterNotSupported", "ActionParameterUnknown", "ActionParameterValueFormatError",
    "ActionParameterValueNotInList", "PropertyValueNotInList",
})  # fmt: skip
#: Messages of the base registry about refusals that do not pass.
_FINAL = _LACKING | {
    "ActionNotSupported", "ActionParameterMissing", "ActionParameterValueError",
    "ActionParameterValueTypeError", "InsufficientPrivilege", "MalformedJSON", "PropertyMissing",
    "PropertyUnknown",
}  # fmt: skip


class RedfishPower(Redfish, Power):
    """Power by ComputerSystem.Reset and PowerState."""

    supported = (POWER_ON, POWER_OFF, REBOOT, SOFT_OFF, SOFT_REBOOT)
    sweep_reader = staticmethod(open_reader)

    def get_power_state(self, target: Target) -> str | None:
        with client.turn(target, self.bmcs) as bmc:
            return ironic_power_state(bmc.system(fresh=True).json.get("PowerState"))

    def last_reset(self, target: Target) -> str | None:
        with client.turn(target, self.bmcs) as bmc:
            return text(bmc.system(fresh=True).json.get("LastResetTime"))

    def order(self, target: Target, state: str) -> None:
        with client.turn(target, self.bmcs) as bmc:
            system = bmc.system(fresh=False)
            allowed_resets = by_word(system.get_allowed_reset_system_values())
            names = [name for name in RESETS[state] if name in allowed_resets]
            if not names:
                raise NotSupported(
                    f"the BMC of node {target.uuid} has no reset type for {state!r}, which needs"
                    f" {' or '.join(RESETS[state])}; it offers"
                    f" {', '.join(sorted(allowed_resets)) or 'none that is known'}"
                )
            for name in names:
                if name == "PushPowerButton":
                    _check_button(bmc, state)
                try:
                    with _answers(bmc):
                        system.reset_system(allowed_resets[name])
                    return
                except NotSupported:  # it lists a reset type that it lacks
                    if name == names[-1]:
                        raise


def _check_button(bmc: client.Connection, state: str) -> None:
    """
    Check that the power button leads to a power state now, as it toggles.

    Raises Busy.
    """
    power_state = bmc.system(fresh=True).json.get("PowerState")
    if power_state != _BUTTON[state]:
        raise Busy(
            f"BMC {bmc.access.address} offers only the power button for {state!r}, and shows"
            f" {text(power_state)!r}"
        )


@contextmanager
def _answers(bmc: client.Connection) -> Iterator[None]:
    """
    Translate the answers to an order, sent inside.

    Raises Busy: refused for now. Raises NotSupported: the BMC lacks the reset type.
    Raises Refused: for good. Raises Unconfirmed: a server error, or the answer was lost.
    """
    from sushy import exceptions

    try:
        yield
    except exceptions.HTTPError as error:
        status, ids = error.status_code, _message_ids(error)
        if status == 401:
            raise
        words = text(bmc.access.mask(f"{status}: {error.detail or error.code}"), 1000)
        message = f"BMC {bmc.access.address} refused: {words}"
        if ids & _LACKING:
            raise NotSupported(message) from error
        if status in _TRANSIENT and not ids & _FINAL:
            raise Busy(message) from error
        if status and status >= 500 and status != 501:
            raise Unconfirmed(f"BMC {bmc.access.address} failed: {words}") from error
        raise Refused(message) from error
    except exceptions.ConnectionError as error:
        cause = error.__context__ or error
        if isinstance(cause, HardwareError):
            raise cause from error
        raise Unconfirmed(
            f"BMC {bmc.access.address} did not answer ({type(cause).__name__})"
        ) from error


def _message_ids(error: "HTTPError") -> set[str]:
    """Return the names of all messages of a refusal, without their registries."""
    entries = error.extended_info if isinstance(error.extended_info, list) else []
    ids = [entry.get("MessageId") for entry in entries if isinstance(entry, dict)]
    return {name.rpartition(".")[2] for name in (error.code, *ids) if isinstance(name, str)}
