"""A scripted BMC, and a step of power with it."""

import json
from dataclasses import replace

from drivers.core.errors import HardwareError
from drivers.core.interface_kinds import POWER_OFF, POWER_ON
from drivers.core.kinds.power import Power
from drivers.core.kinds.power_settlement import Order
from drivers.core.steps import Wait

WANTED = {
    Order.ON: POWER_ON,
    Order.OFF: POWER_OFF,
    Order.SOFT_OFF: POWER_OFF,
    Order.RESET: POWER_ON,
}
OPPOSITE = {POWER_ON: POWER_OFF, POWER_OFF: POWER_ON}


class ScriptedPower(Power):
    """A BMC whose readings and answers come from functions; counts the orders."""

    def __init__(self, read, answer=lambda: None, mark=lambda: None):
        self.read_state, self.answer, self.mark = read, answer, mark
        self.events = []  # ("order", error or None) and ("read", state or error)

    @property
    def orders(self):
        return sum(kind == "order" for kind, _ in self.events)

    def get_power_state(self, target):
        state = self.read_state()
        self.events.append(("read", state))
        if isinstance(state, HardwareError):
            raise state
        return state

    def last_reset(self, target):
        return self.mark()

    def order(self, target, state):
        error = self.answer()
        self.events.append(("order", error))
        if error is not None:
            raise error


def call(power, order, node):
    """Call the step of an order."""
    if order is Order.RESET:
        return power.power_on(node)
    return power.change(node, str(order))


def applied(node, outcome):
    """Return the node as the next attempt gets it, after the outcome is recorded."""
    internal = {**node.driver_internal_info, **node.reports.get("driver_internal_info", {})}
    internal = {key: value for key, value in internal.items() if value is not None}
    progress = json.loads(json.dumps(dict(outcome.progress))) if isinstance(outcome, Wait) else {}
    return replace(node, progress=progress, driver_internal_info=internal, reports={})
