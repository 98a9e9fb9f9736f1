"""Orders to an agent whose answers are lost: whether one was sent decides its error, and what follows."""

from dataclasses import replace
from threading import Event

import pytest

from drivers.agent import client, in_band
from drivers.core.errors import Unconfirmed, Unreachable
from drivers.core.steps import Done, Wait
from drivers.core.target import Agent
from tests.support.web import Handler, serving
from tests.unit.drivers.machines import TOKEN, target, with_option

BRIEF = with_option("agent", command_timeout=0.3)
ORDER = "rescue.finalize_rescue"


class Rude(Handler):
    """An agent whose `way` of losing an answer is one of `WAYS`, for POST, or for all requests."""

    def do_POST(self):
        self.server.received.append(self.body())
        WAYS[self.server.way](self)

    def do_GET(self):
        if self.server.is_silent:
            self.connection.close()
        else:
            self.answer(200, {"commands": self.server.commands})


def close(handler):
    handler.connection.close()


def stay_silent(handler):
    handler.server.released.wait(5)


def drip(handler):
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.released.wait(0.05):
        try:
            handler.wfile.write(b" ")
        except OSError:
            return


def break_off(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.connection.close()


WAYS = {"close": close, "silent": stay_silent, "drip": drip, "break": break_off}


@pytest.fixture
def agent():
    facts = {"received": [], "commands": [], "way": "close", "is_silent": False}
    with serving(Rude, released=Event(), **facts) as server:
        yield server
        server.released.set()


def node(url):
    return target(
        interfaces={"deploy": "direct", "rescue": "agent"},
        options=BRIEF,
        agent=Agent(url, TOKEN, None, "13.0.0", {}, {"manager": "1"}),
        instance_info={"hashed_rescue_password": "$6$x"},
    )


@pytest.mark.parametrize("way", WAYS)
def test_an_order_that_was_sent_is_unconfirmed_and_never_repeated(agent, way):
    agent.way = way
    with pytest.raises(Unconfirmed) as raised:
        client.run(node(agent.url), "standby.power_off", {}, wait=False)
    assert 1 == len(agent.received)
    assert TOKEN not in str(raised.value)


@pytest.mark.parametrize("way", WAYS)
def test_a_read_is_unreachable_at_most(agent, way):
    agent.way = way
    with pytest.raises(Unreachable) as raised:
        client.run(node(agent.url), "deploy.get_deploy_steps", {}, wait=True)
    assert Unreachable is type(raised.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_order_that_was_not_sent_is_unreachable(agent, scheme):
    """Nothing listens there, or no TLS: the handshake fails before the request."""
    url = "http://127.0.0.1:9" if scheme == "http" else agent.url.replace("http:", "https:")
    with pytest.raises(Unreachable) as raised:
        client.run(node(url), "standby.power_off", {}, wait=False)
    assert (Unreachable, []) == (type(raised.value), agent.received)


def test_a_step_whose_answer_was_lost_is_settled_by_the_list(agent):
    it = node(agent.url)
    order = in_band.Order("standby.sync_all")
    waits = in_band.run_once(it, order)
    assert isinstance(waits, Wait)
    agent.commands = [
        {"id": "1", "command_name": "sync_all", "command_status": "SUCCEEDED", "command_result": 7}
    ]
    assert Done({"result": 7}) == in_band.run_once(replace(it, progress=waits.progress), order)
    assert 1 == len(agent.received)


def rescued(it, outcome=None):
    progress = outcome.progress if outcome else {}
    return it.driver.rescue.rescue(replace(it, progress=progress))


def test_a_rescue_counts_as_done_only_if_its_password_may_have_arrived(agent):
    it = node(agent.url)
    dead = replace(it, agent=replace(it.agent, url="http://127.0.0.1:9"))
    waits = rescued(dead)
    for _ in range(3):  # it was never sent: a silent agent has no password
        waits = rescued(dead, waits)
        assert isinstance(waits, Wait)
    waits = rescued(it, waits)
    assert 1 == len(agent.received)
    agent.is_silent = True  # its API ends once it has accepted
    assert Done() == rescued(it, waits)


def test_a_rescue_that_did_not_arrive_and_cannot_be_sent_again_is_not_done(agent):
    it = node(agent.url)
    waits = rescued(it)
    agent.commands = []
    waits = rescued(it, waits)  # the list does not have it: sent again, and lost again
    assert (2, True) == (len(agent.received), isinstance(waits, Wait))
