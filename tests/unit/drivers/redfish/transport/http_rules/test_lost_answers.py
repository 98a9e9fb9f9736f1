"""Requests and orders without an answer: reads are sent again, orders are not."""

import time

import pytest
import sushy

from drivers.core.errors import Unconfirmed, Unexpected, Unreachable
from drivers.redfish.transport import client
from drivers.redfish.transport.http_rules import Failure, Request, conversation
from drivers.redfish.transport.peer import Peer
from tests.support.ports import free_port
from tests.support.rude_bmc import RESET, ROOT, SESSIONS, SILENCE, SYSTEM, link

from .conftest import both, by_sushy, by_sweep, hanging, in_turn, node, only, packed

# Lost answers


@both
@pytest.mark.parametrize("losses", [1, 2])
def test_a_read_is_repeated(bmc, read, losses):
    bmc.rule = in_turn(SYSTEM, *[SILENCE] * losses)
    assert "power on" == read(node(bmc))
    bmc.rule = in_turn(SYSTEM, (500, {}, b""))
    assert "power on" == read(node(bmc))


@both
def test_a_read_is_repeated_a_few_times_only(bmc, read):
    bmc.rule = only(SYSTEM, SILENCE)
    with pytest.raises(Unreachable, match="did not answer"):
        read(node(bmc))
    # aiohttp itself sends each of them once more when the connection was closed
    assert (6 if read is by_sweep else 3) == bmc.requests().count(("GET", SYSTEM))
    bmc.request_log.clear()
    bmc.rule = only(SYSTEM, (500, {}, b""))
    with pytest.raises(Unexpected):
        read(node(bmc))
    assert 2 == bmc.requests().count(("GET", SYSTEM))


@both
def test_a_bmc_that_is_not_there_is_not_asked_again(read, bmc):
    bmc.url = f"http://127.0.0.1:{free_port()}"
    pauses = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", pauses.append)
        with pytest.raises(Unreachable) as raised:
            read(node(bmc))
    assert not isinstance(raised.value, Unconfirmed)
    assert not any(pauses), "a pause before another request"


@pytest.mark.parametrize(
    "answer",
    [
        SILENCE,
        hanging,
        (200, {"Content-Encoding": "br"}, b"x"),
        (202, {}, packed(b"{")[:-9]),
    ],
    ids=["closed", "late", "encoded", "broken"],
)
def test_an_order_whose_answer_is_lost_is_given_once_and_unconfirmed(bmc, answer):
    it = node(bmc, 0.5)
    assert "power on" == by_sushy(it)
    bmc.rule = only(RESET, answer, "POST")
    with pytest.raises(Unconfirmed, match=rf"^POST {RESET} was ordered, not confirmed: BMC "):
        it.driver.power.order(it, "power off")
    assert 1 == len(bmc.orders())


def test_an_order_that_was_not_sent_says_so(bmc, monkeypatch):
    it = node(bmc)
    with client.turn(it, it.driver.power.bmcs) as connection:
        system = connection.system(fresh=False)
    # of the same BMC, which has stopped to listen
    address = f"http://127.0.0.1:{free_port()}"
    adapter = system._conn._session.get_adapter(bmc.url)
    monkeypatch.setattr(adapter, "_peer", Peer(address))
    system._conn._url = address
    with pytest.raises(Unreachable, match=rf"^POST {RESET} was not ordered: BMC ") as raised:
        it.driver.power.order(it, "power off")
    assert not isinstance(raised.value, Unconfirmed)
    assert [] == bmc.orders()


def test_a_read_that_is_lost_after_an_order_leaves_the_order_unconfirmed(bmc):
    it = node(bmc)

    def order_and_look():
        with client.turn(it, it.driver.power.bmcs) as connection:
            connection.system(fresh=True).reset_system(sushy.ResetType.FORCE_OFF)
            bmc.rule = only(SYSTEM, SILENCE)
            connection.system(fresh=True)

    with pytest.raises(Unconfirmed, match="was ordered, not confirmed"):
        order_and_look()
    with pytest.raises(Unreachable) as raised:  # the next command has given no order
        by_sushy(it)
    assert not isinstance(raised.value, Unconfirmed)


@both
@pytest.mark.parametrize("keeps", [False, True])
def test_each_request_has_a_connection_of_its_own(bmc, read, keeps):
    """The BMC closes connections without a word about it, or keeps them and says nothing."""
    bmc.keeps = keeps
    for _ in range(10):
        it = node(bmc)
        assert "power on" == read(it)
        it.driver.power.order(it, "power off")
    assert {"close"} == {headers["Connection"] for *_, headers, _ in bmc.request_log}
    assert len(set(bmc.clients)) == len(bmc.clients)
    assert 10 == len(bmc.orders())


ORDER = Request("POST", f"http://bmc{RESET}")

# Any answer


@pytest.mark.parametrize(
    ("request_", "is_sent", "sendings", "error"),
    [
        (Request("GET", "http://bmc/x"), True, 3, Unreachable),
        (Request("GET", "http://bmc/x"), False, 3, Unreachable),
        (ORDER, False, 3, Unreachable),
        (ORDER, True, 1, Unconfirmed),
        (Request("PATCH", "http://bmc/x"), True, 1, Unconfirmed),
        (Request("DELETE", "http://bmc/x"), True, 1, Unconfirmed),
        (Request("POST", f"http://bmc{SESSIONS}/"), True, 3, Unreachable),
        (Request("DELETE", f"http://bmc{SESSIONS}/1"), True, 3, Unreachable),
    ],
)
def test_only_what_was_not_sent_or_changes_nothing_is_sent_again(
    request_, is_sent, sendings, error
):
    talk = conversation(Peer("http://bmc"), request_, time.monotonic() + 60)
    next(talk)
    failure = Failure("broke off", was_sent=is_sent, repeats=2)
    for _ in range(sendings - 1):
        talk.throw(failure)
    with pytest.raises(Unreachable) as raised:
        talk.throw(failure)
    assert error is type(raised.value)


def test_a_late_command_repeats_nothing():
    talk = conversation(Peer("http://bmc"), Request("GET", "http://bmc/x"), time.monotonic())
    next(talk)
    with pytest.raises(Unreachable):
        talk.throw(Failure("broke off", was_sent=False, repeats=2))


EVENTS = f"{ROOT}/EventService"
SUBSCRIPTIONS = f"{EVENTS}/Subscriptions"
HERE = "https://192.0.2.1/events"


def with_events(bmc, *, headers=(), content=b"", status=201, creates=1):
    """Give a BMC an event service that answers a new subscription in this way."""
    old = {"Id": "0", "Name": "s", "Destination": HERE, "Context": "", "Protocol": "Redfish"}
    bmc.documents[ROOT]["EventService"] = link(EVENTS)
    bmc.documents[EVENTS] = {
        "Id": "E", "Name": "E", "ServiceEnabled": True, "Actions": {"#EventService.SubmitTestEvent": {"target": "/x"}}, "EventTypesForSubscription": ["Alert"],
        "Subscriptions": link(SUBSCRIPTIONS),
    }  # fmt: skip
    bmc.documents[SUBSCRIPTIONS] = {"Name": "c", "Members": [link(f"{SUBSCRIPTIONS}/0")]}
    bmc.documents[f"{SUBSCRIPTIONS}/0"] = old

    def create(_handler):
        for number in range(1, creates + 1):
            path = f"{SUBSCRIPTIONS}/{number}"
            bmc.documents[SUBSCRIPTIONS]["Members"].append(link(path))
            bmc.documents[path] = {**old, "Id": str(number)}
        return status, dict(headers), content

    bmc.rule = only(SUBSCRIPTIONS, create, "POST")


# Subscriptions


@pytest.mark.parametrize(
    "answer",
    [
        {"headers": {"Location": f"{SUBSCRIPTIONS}/1"}},
        {"headers": {"Location": f"{SUBSCRIPTIONS}/1"}, "status": 204},
        {"content": {"@odata.id": f"{SUBSCRIPTIONS}/1"}},
        {}, {"status": 204}, {"status": 200, "content": {"Message": "Success"}},
    ],
)  # fmt: skip
def test_a_new_subscription_is_found_without_the_word_of_its_bmc(bmc, answer):
    with_events(bmc, **answer)
    it = node(bmc)
    created = it.driver.vendor.call(it, "create_subscription", {"Destination": HERE})
    assert "1" == created["Id"]
    assert 1 == len(bmc.orders())


@pytest.mark.parametrize("creates", [0, 2])
def test_a_subscription_that_cannot_be_told_is_unconfirmed(bmc, creates):
    with_events(bmc, creates=creates)
    it = node(bmc)
    with pytest.raises(Unconfirmed, match=f"lists {creates} new ones to {HERE}"):
        it.driver.vendor.call(it, "create_subscription", {"Destination": HERE})
