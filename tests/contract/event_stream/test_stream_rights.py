"""GET /v1/events/stream: the events that a caller may read, and the loss of its rights."""

from collections import Counter
from contextlib import ExitStack
from datetime import datetime

import pytest
from sqlalchemy import update

from app.identity.caller import Role
from app.models import ApiToken, Node
from tests.contract.conftest import Api
from tests.support.local_users import Directory, with_local_users

from .conftest import events, listed, on_both, streaming, until_number

RED, BLUE = "1" * 32, "2" * 32


@pytest.fixture
def users(api):
    users = Directory(api.runtime.transaction)
    users.project("red", RED)
    users.project("blue", BLUE)
    users.user("ann", ("reader", "red"))
    users.user("root", ("reader", None))
    return users


@pytest.fixture
def local(api):
    runtime, app = with_local_users(api.runtime)
    return Api(app.test_client(), runtime, [])


def token(users, user, project):
    return {"X-Auth-Token": users.token(user, project)}


@on_both
def test_a_stream_is_narrowed_as_the_list(api, local, users):
    nodes = [api.node(name=f"n{at}", owner=owner) for at, owner in enumerate((RED, BLUE, None))]
    api.node(name="leased", owner=BLUE, lessee=RED)

    def flip(*values):
        for value in values:
            for node in [created_node["uuid"] for created_node in nodes]:
                api.set(node, maintenance=value)

    flip(True)
    mine, everything = token(users, "ann", "red"), token(users, "root", None)
    with streaming(local, "?after=0", **mine) as reader:
        received_events = events(reader.take(len(listed(local, **mine))))
        flip(False, True)
        api.set(nodes[1]["uuid"], owner=RED)  # from now on
        flip(False)
        api.set(nodes[0]["uuid"], owner=BLUE)
        flip(True)
        expected = listed(local, **mine)
        assert expected == received_events + events(
            reader.take(len(expected) - len(received_events))
        )
    assert {"n0", "n1"} == {event["node_name"] for event in expected}
    with streaming(local, "?after=0", **everything) as reader:
        expected = listed(local, **everything)
        assert expected == events(reader.take(len(expected)))


def test_streams_at_the_same_position_get_what_they_may_see_and_ask_for(api, local, users):
    for name, owner in ("red", RED), ("blue", BLUE), ("none", None):
        api.node(name=name, owner=owner)
    users.user("bob", ("reader", "blue"))
    requests = [
        ("", token(users, "ann", "red"), ["red"]),
        ("", token(users, "bob", "blue"), ["blue"]),
        ("", token(users, "root", None), ["red", "blue", "none"]),
        ("?type=node.power_state", token(users, "root", None), []),
        ("?node=none", token(users, "root", None), ["none"]),
        ("", token(users, "ann", "red"), ["red"]),
    ]
    with ExitStack() as opened:
        readers = [
            opened.enter_context(streaming(local, query, **headers))
            for query, headers, _names in requests
        ]
        for reader in readers:
            reader.heartbeat()
        with api.runtime.transaction() as session:
            session.execute(update(Node).values(maintenance=True))
        last_sequence = listed(api)[-1]["sequence"]
        for reader, (_query, _headers, names) in zip(readers, requests, strict=True):
            received_events = events(reader.take(len(names)))
            assert Counter(names) == Counter(event["node_name"] for event in received_events)
            while reader.last_sequence != last_sequence:
                reader.last_sequence = int(reader.heartbeat().rsplit(b"id: ")[-1])


def lose_role(users, _api, _ident):
    users.revoke(Role.READER, "red", user="ann")


def lose_token(users, _api, ident):
    users.revoke_token(ident)


def expire(_users, api, _ident):
    with api.runtime.transaction() as session:
        session.execute(update(ApiToken).values(expires_at=datetime(2020, 1, 1)))


def lose_account(users, _api, _ident):
    users.enable("ann", False)


@pytest.mark.parametrize("lose", [lose_role, lose_token, expire, lose_account])
@pytest.mark.parametrize("idle", [True, False], ids=["idle", "events"])
def test_a_caller_who_loses_access_gets_no_further_event(api, local, users, lose, idle):
    node = api.node(owner=RED)["uuid"]
    ident, secret = users.token_with_uuid("ann", "red")
    with streaming(local, "?after=0", **{"X-Auth-Token": secret}) as reader:
        api.set(node, maintenance=True)
        until_number(reader, listed(api)[-1]["sequence"])
        lose(users, api, ident)
        if not idle:
            api.set(node, maintenance=False)
        assert None is reader.message()


def test_a_caller_with_more_rights_sees_more(api, local, users):
    node = api.node()["uuid"]
    users.user("eve", ("reader", "blue"), ("reader", "red"))
    with streaming(local, "?after=1", **token(users, "eve", "red")) as reader:
        reader.heartbeat()
        api.set(node, maintenance=True)
        reader.heartbeat()
        api.set(node, owner=RED)
        api.set(node, maintenance=False)
        assert ["node.maintenance"] == [event["type"] for event in events(reader.take(1))]
