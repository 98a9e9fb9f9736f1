"""Floods of requests by one client, while others are served."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest
import requests
from flask import request
from sqlalchemy import event

from app.api.feed.followers import MAX_PER_CALLER
from app.api.request.context import services_of
from app.api.transport.client_addresses import Clients
from app.api.transport.limits import REFUSED_FOLLOWERS_PER_MINUTE
from app.requests.rate_limit import MOST_KEYS, RateLimit
from app.server.application import AGENTS_AT_ONCE, create_app
from tests.contract.test_server import NEWEST
from tests.security.served import fault, get, post, serving
from tests.support.fleet import PATIENCE, until

#: Seconds of a long poll: enough for those before it on a busy machine.
WAIT = 15
LOOKUP = "/v1/lookup?addresses=52:54:00:00:00:01"
#: Long polls of an address that are refused with their reason in a minute.
POLLS = REFUSED_FOLLOWERS_PER_MINUTE


# addresses and rates


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", "198.51.100.9", "192.0.2.1"),
        ("127.0.0.1", "198.51.100.9", "198.51.100.9"),
        ("127.0.0.1", "forged, 198.51.100.9", "198.51.100.9"),
        ("127.0.0.1", "198.51.100.9, 127.0.0.2", "198.51.100.9"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("::1", "2001:db8::5:6:7:8", "2001:db8::/64"),
        ("::ffff:192.0.2.1", "198.51.100.9", "192.0.2.1"),
        ("127.0.0.1", "x" * 9000, "x" * 64),
    ],
)
def test_the_client_is_the_last_address_that_a_trusted_proxy_reports(peer, forwarded, client):
    environ = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": forwarded}
    assert client == Clients(["127.0.0.0/8", "::1/128"]).key_of(environ)


def test_a_rate_limit_counts_per_key_and_refills_with_time():
    now = [0.0]
    limit = RateLimit(2, lambda: now[0])
    assert [0, 0, 30] == [limit.take("a") for _ in range(3)]
    assert 0 == limit.take("b")
    limit.give_back("a")
    assert 0 == limit.take("a")
    now[0] += 30
    assert [0, 30] == [limit.take("a") for _ in range(2)]
    assert 0 == RateLimit(0).take("a")


def test_a_heavy_event_counts_as_several():
    now = [0.0]
    limit = RateLimit(4, lambda: now[0])
    assert [0, 15] == [limit.take("a", weight) for weight in (3, 2)]
    limit.give_back("a", 3)
    assert [0, 60] == [limit.take("a", weight) for weight in (1000, 1000)]


def test_a_rate_limit_remembers_a_bounded_number_of_keys():
    limit = RateLimit(1)
    for number in range(MOST_KEYS + 5):
        limit.take(str(number))
    assert 0 == limit.take("0")
    assert MOST_KEYS == len(limit._buckets)


# agents


@pytest.fixture(scope="module")
def limited(migrated_sqlite, tmp_path_factory):
    """A server with low limits of refused requests; sees the address that a proxy reports."""
    folder = tmp_path_factory.mktemp("limited")
    with serving(migrated_sqlite, folder, "with_few_refusals") as url:
        yield url


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", LOOKUP, None),
        ("POST", "/v1/heartbeat/2c683317-1ef8-4645-b76b-321ffa501c0a",
         {"callback_url": "https://192.0.2.1:9999", "agent_token": "x", "agent_version": "9"}),
        ("POST", "/v1/continue_inspection",
         {"inventory": {"interfaces": [{"mac_address": "52:54:00:00:00:01"}]}}),
    ],
    ids=["lookup", "heartbeat", "report"],
)  # fmt: skip
def test_refused_requests_of_agents_are_limited_by_address(limited, method, path, body):
    def statuses(address, number):
        headers = {**NEWEST, "X-Forwarded-For": address}
        return [
            requests.request(method, f"{limited}{path}", json=body, headers=headers, timeout=30)
            for _ in range(number)
        ]

    *first_answers, last_answer = statuses("192.0.2.1", 4)
    assert {404} == {answer.status_code for answer in first_answers}
    assert 429 == last_answer.status_code
    assert 0 < int(last_answer.headers["Retry-After"]) <= 20
    assert "retry later" in fault(last_answer)
    assert [404] == [status.status_code for status in statuses("192.0.2.2", 1)]
    assert 200 == get(f"{limited}/v1/nodes").status_code


def test_answered_lookups_are_not_limited(migrated_sqlite, tmp_path):
    settings = {"INGOT_API_RESTRICT_LOOKUP": "false"}
    with serving(migrated_sqlite, tmp_path, "with_few_refusals", **settings) as url:
        node = post(f"{url}/v1/nodes", json={"driver": "fake-hardware"}).json()["uuid"]
        statuses = [get(f"{url}/v1/lookup?node_uuid={node}").status_code for _ in range(10)]
        assert [200] * 10 == statuses


@pytest.mark.parametrize("path", ["/v1/lookup", "/v1/continue_inspection"])
def test_agents_have_slots_of_their_own_and_callers_theirs(api, monkeypatch, path):
    """While the handlers of all agents' slots hang, callers are answered."""
    release, entered = threading.Event(), threading.Semaphore(0)
    app = create_app(api.runtime)

    def hang():
        if request.path == path:
            entered.release()
            release.wait(PATIENCE)

    app.before_request(hang)
    with ThreadPoolExecutor(80) as pool:
        hung = [pool.submit(app.test_client().open, path) for _ in range(70)]
        try:
            for _ in range(AGENTS_AT_ONCE):
                assert entered.acquire(timeout=PATIENCE)
            answer = pool.submit(app.test_client().get, "/v1/nodes", headers=NEWEST).result(20)
            assert 200 == answer.status_code
            refused = until(lambda: [future for future in hung if future.done()], "refusals")
            assert {503} == {future.result().status_code for future in refused}
            assert "5" == refused[0].result().headers["Retry-After"]
        finally:
            release.set()


def test_the_flood_of_one_address_delays_a_request_of_another_by_few_turns(api):
    """All slots hang, and more of the same address wait; then a request of another one comes."""
    go, entered, order = threading.Semaphore(0), threading.Semaphore(0), []
    app = create_app(api.runtime)
    slots = max(1, api.runtime.settings.api.blocking_threads - 1)

    def hang():
        order.append(request.remote_addr)
        entered.release()
        assert go.acquire(timeout=30)

    app.before_request(hang)

    def ask(address):
        return app.test_client().get("/v1/nodes", environ_base={"REMOTE_ADDR": address})

    with ThreadPoolExecutor(slots + 21) as pool:
        futures = [pool.submit(ask, "198.51.100.1") for _ in range(slots + 20)]
        try:
            for _ in range(slots):
                assert entered.acquire(timeout=PATIENCE)
            time.sleep(0.3)  # until the others wait for a slot
            futures.append(pool.submit(ask, "198.51.100.2"))
            while "198.51.100.2" not in order:
                time.sleep(0.1)  # a busy machine may need some until it waits, too
                go.release()
                assert entered.acquire(timeout=PATIENCE)
            assert len(order) - slots <= 10, "it does not wait for all 20"
        finally:
            go.release(len(futures))
        assert {200} == {future.result(30).status_code for future in futures}


# long polls


def test_many_long_polls_of_one_caller_are_refused_at_once_and_leave_room(
    migrated_sqlite, tmp_path
):
    # of which an address may have three
    with serving(migrated_sqlite, tmp_path, INGOT_API_POLLING_THREADS="12") as url:
        node = post(f"{url}/v1/nodes", json={"driver": "fake-hardware"}).json()["uuid"]
        path = f"{url}/v1/nodes/{node}/states"
        assert (
            202
            == requests.put(
                f"{path}/provision", json={"target": "manage"}, headers=NEWEST, timeout=30
            ).status_code
        )

        def poll(address):
            began = time.monotonic()
            answer = get(f"{path}?wait={WAIT}", headers={**NEWEST, "X-Forwarded-For": address})
            if answer.status_code == 200:
                assert "verifying" == answer.json()["provision_state"]
                assert time.monotonic() - began > WAIT - 1
            else:
                assert 0 < int(answer.headers["Retry-After"]) <= 5
            return answer.status_code, "requests with `wait`" in answer.text

        with ThreadPoolExecutor(100) as pool:
            many = [pool.submit(poll, "192.0.2.1") for _ in range(80)]
            until(lambda: sum(future.done() for future in many) >= 72, "72 answers at once")
            assert (429, False) in [poll("192.0.2.1") for _ in range(5)], "refused before Flask"
            # nine places are left for eleven polls of four addresses
            other_polls = [pool.submit(poll, f"192.0.2.{2 + number // 3}") for number in range(11)]
            # questions to machines wait in places of their own
            question = pool.submit(get, f"{url}/v1/nodes/{node}/management/boot_device/supported")
            assert 503 != question.result().status_code or "waiting" not in question.result().text
            counts = Counter(future.result() for future in many)
            assert 3 == counts[200, False]
            assert counts[429, True] >= POLLS
            assert {(200, False): 9, (503, True): 2} == Counter(
                future.result() for future in other_polls
            )


@pytest.mark.parametrize("query", ["nodes/name/states?wait=9", "events?after=0&node=name&wait=9"])
@pytest.mark.parametrize(("holders", "status"), [(["127.0.0.1"], 429), (["one", "two"], 503)])
def test_a_long_poll_without_a_place_costs_no_query(api, query, holders, status):
    settings = api.runtime.settings
    few = replace(settings.api, polling_threads=2)
    runtime = replace(api.runtime, settings=replace(settings, api=few), cache={})
    app, connections, this = create_app(runtime), [], threading.current_thread()
    limited = replace(api, client=app.test_client(), runtime=runtime)
    api.node(name="name")

    def note(*_):
        if threading.current_thread() is this:  # the tail of the events has a thread of its own
            connections.append(1)

    event.listen(runtime.engine, "checkout", note)
    try:
        assert 200 == limited("GET", f"/v1/{query}".replace("wait=9", "wait=0.1")).status_code
        assert connections
        connections.clear()
        with ExitStack() as places:
            for holder in holders:
                places.enter_context(services_of(app).followers.polls.hold(holder))
            refused = limited("GET", f"/v1/{query}")
        assert [] == connections
    finally:
        event.remove(runtime.engine, "checkout", note)
    assert status == refused.status_code
    assert "requests with `wait`" in refused.text


def test_refused_long_polls_of_one_caller_are_not_counted_for_others_of_its_address(api):
    app = create_app(replace(api.runtime, cache={}))
    followers = services_of(app).followers

    def poll(token):
        headers = {**NEWEST, "X-Auth-Token": token}
        answer = app.test_client().get("/v1/events?after=0&wait=0.1", headers=headers)
        return answer.status_code, "requests with `wait`" in answer.text

    with ExitStack() as places:
        for _ in range(MAX_PER_CALLER):
            places.enter_context(followers.polls.hold("127.0.0.1"))
        assert {(429, True)} == {poll("flooding") for _ in range(POLLS)}
        assert (429, False) in [poll("flooding") for _ in range(5)], "refused before Flask"
        assert (429, True) == poll("honest")
    assert (200, False) == poll("honest")


# starts


@pytest.mark.parametrize(("address", "warned"), [("0.0.0.0", True), ("127.0.0.1", False)])
def test_a_start_without_authentication_warns_if_other_hosts_reach_it(
    migrated_sqlite, tmp_path, capfd, address, warned
):
    with serving(migrated_sqlite, tmp_path, INGOT_API_HOST_IP=address):
        pass
    assert warned == ("api.no_authentication" in capfd.readouterr().out)


@pytest.mark.parametrize(
    ("address", "public", "warned"),
    [
        ("0.0.0.0", "", True),
        ("0.0.0.0", "https://ingot.example", False),
        ("127.0.0.1", "", False),
    ],
)
def test_a_start_warns_if_other_hosts_choose_the_links_of_answers(
    migrated_sqlite, tmp_path, capfd, address, public, warned
):
    settings = {"INGOT_API_HOST_IP": address, "INGOT_AUTH_STRATEGY": "local"}
    if public:
        settings["INGOT_API_PUBLIC_ENDPOINT"] = public
    with serving(migrated_sqlite, tmp_path, **settings):
        pass
    assert warned == ("api.links_by_host" in capfd.readouterr().out)
