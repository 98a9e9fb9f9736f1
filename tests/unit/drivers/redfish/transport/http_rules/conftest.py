"""
BMCs on a socket whose answers a test chooses, and the two readers of them.

These are sushy (orders) and the power sweep. `docs/redfish.md` has the rules as a table.
"""

import gzip
import time
from functools import partial

import pytest

from drivers.core.bmc import Bmcs
from drivers.core.errors import HardwareError
from tests.support.rude_bmc import SILENCE, SYSTEM, rude_bmc
from tests.unit.drivers.documents import sweep_of
from tests.unit.drivers.machines import OPTIONS, new_registry, target

#: Without the time, as tests are named after the bytes.
packed = partial(gzip.compress, mtime=0)


def node(bmc, seconds=5.0, **info):
    options = {
        **OPTIONS,
        "redfish": {**OPTIONS["redfish"], "connect_timeout": seconds, "read_timeout": seconds},
    }
    info = {
        "redfish_address": bmc.url, "redfish_username": bmc.user, "redfish_password": bmc.password,
        "redfish_auth_type": "basic", "redfish_system_id": SYSTEM, **info,
    }  # fmt: skip
    registry = new_registry(Bmcs(trip_after=10_000))
    return target("redfish", registry=registry, driver_info=info, options=options)


def by_sushy(it):
    return it.driver.power.get_power_state(it)


def by_sweep(it):
    answer = sweep_of(it)
    if isinstance(answer, HardwareError):
        raise answer
    return answer


both = pytest.mark.parametrize("read", [by_sushy, by_sweep])


@pytest.fixture
def bmc():
    with rude_bmc() as server:
        yield server


@pytest.fixture
def other():
    """Another server on the same host, at another port."""
    with rude_bmc() as server:
        yield server


def only(path, answer, method="GET"):
    """A rule that answers one path with `answer`, as it is or made by a function of the handler."""

    def rule(handler):
        if handler.command != method or handler.path.rstrip("/") != path:
            return None
        return answer(handler) if callable(answer) else answer

    return rule


def in_turn(path, *answers, method="GET"):
    """A rule that answers one path with each of `answers`, and then politely."""
    queue = list(answers)
    return only(path, lambda _handler: queue.pop(0) if queue else None, method)


def hanging(_handler):
    time.sleep(1.5)
    return SILENCE
