"""A conductor that subscribes to the events of simulated BMCs."""

import pytest

from drivers.simulator.simulator import running

URL = "https://ingot.example"
#: Settings with which BMCs are asked for their events.
ON = {"INGOT_REDFISH_EVENT_RECEIVER_URL": URL}


@pytest.fixture
def settings():
    return ON


@pytest.fixture
def view(inside, settings):
    inside.environ |= settings
    view = inside.another()
    view.conductor("c-1")
    yield view
    view.close()


@pytest.fixture
def fleet():
    with running(machines=2) as simulator:
        yield simulator
