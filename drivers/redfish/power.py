"""Redfish: power."""

from drivers.core.errors import NotSupported, Unexpected
from drivers.core.kinds import POWER_OFF, POWER_ON, REBOOT, SOFT_OFF, SOFT_REBOOT, Power
from drivers.core.target import Target
from drivers.redfish import client
from drivers.redfish.interface import Redfish

#: PowerState of a system -> Ironic's power state; a machine in transition counts as arrived
STATES = {"On": POWER_ON, "PoweringOn": POWER_ON, "Off": POWER_OFF, "PoweringOff": POWER_OFF}
#: argument of `order` -> equivalent ResetTypes, the preferred first
_RESETS = {
    POWER_ON: ("On", "ForceOn"),
    POWER_OFF: ("ForceOff",),
    SOFT_OFF: ("GracefulShutdown",),
    REBOOT: ("ForceRestart", "PowerCycle"),
}


class RedfishPower(Redfish, Power):
    """Power by ComputerSystem.Reset and PowerState."""

    supported = (POWER_ON, POWER_OFF, REBOOT, SOFT_OFF, SOFT_REBOOT)

    def get_power_state(self, target: Target) -> str:
        with client.turn(target, self.bmcs) as bmc:
            state = bmc.system(fresh=True).power_state
        return ironic_power_state(getattr(state, "value", state), target)

    def order(self, target: Target, state: str) -> None:
        with client.turn(target, self.bmcs) as bmc:
            system = bmc.system(fresh=False)
            allowed = {each.value: each for each in system.get_allowed_reset_system_values()}
            for name in _RESETS[state]:
                if name in allowed:
                    system.reset_system(allowed[name])
                    return
        raise NotSupported(f"the BMC of node {target.uuid} has no reset type for {state!r}")


def ironic_power_state(value: object, target: Target) -> str:
    """
    Convert a PowerState to Ironic's power state.

    Raises Unexpected: Redfish has no such PowerState.
    """
    if not isinstance(value, str) or value not in STATES:
        raise Unexpected(f"the BMC of node {target.uuid} reports power state {value!r:.100}")
    return STATES[value]
