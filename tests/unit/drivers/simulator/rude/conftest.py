"""A fleet of machines, each with the faults of one test, and a clock that a test moves."""

import itertools
import sys
import time
from importlib import import_module
from types import SimpleNamespace

import pytest

from drivers.simulator.rude.table import ROWS
from drivers.simulator.simulator import running

PROOFS = [f"{__package__}.{part}_proofs" for part in ("transport", "update", "boot", "part")]
pytest.register_assert_rewrite(f"{__package__}.proofs", *PROOFS)

from .proofs import CLOCK, PACE, Bmc  # noqa: E402 - with its assertions rewritten

for module in PROOFS:
    import_module(module)  # it registers its proofs


@pytest.fixture(scope="module")
def fleet():
    with (
        pytest.MonkeyPatch.context() as patch,
        running(machines=2 * len(ROWS) + 50, **PACE) as simulator,
    ):
        for name, module in list(sys.modules.items()):
            if name.startswith("drivers.simulator.") and hasattr(module, "time"):
                clock = CLOCK if module.time is time else CLOCK.time
                patch.setattr(module, "time", clock)
        yield SimpleNamespace(simulator=simulator, numbers=itertools.count())


@pytest.fixture
def bmc(fleet):
    number = next(fleet.numbers)
    bmc = Bmc(fleet.simulator.machines[number])
    bmc.set_faults = lambda **settings: fleet.simulator.set_faults(number, **settings)
    return bmc
