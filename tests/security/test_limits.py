"""Floods of requests by one client, while others are served."""

import json
import os
import statistics
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import bcrypt
import pytest
import requests
from flask import request
from sqlalchemy import event

from app.api.authentication.passwords import CHECKED, WIDER, PasswordChecks
from app.api.authentication.strategies import HttpBasic
from app.api.feed.followers import MAX_PER_CALLER
from app.api.request.context import services_of
from app.api.transport.client_addresses import Clients
from app.api.transport.limits import REFUSED_FOLLOWERS_PER_MINUTE
from app.config.settings import Settings
from app.requests.rate_limit import MOST_KEYS, RateLimit
from app.server.application import AGENTS_AT_ONCE, create_app
from tests.contract.test_server import NEWEST, await_answer, copied, started
from tests.support.fleet import PATIENCE, until
from tests.support.ports import free_port

#: Seconds of a long poll: enough for those before it on a busy machine.
WAIT = 15
LOOKUP = "/v1/lookup?addresses=52:54:00:00:00:01"
#: Long polls of an address that are refused with their reason in a minute.
POLLS = REFUSED_FOLLOWERS_PER_MINUTE


@contextmanager
def serving(migrated_sqlite, folder, function="main", **settings):
    """A server with one process; yields its URL."""
    port = free_port()
    settings = {"INGOT_API_API_WORKERS": "1", **settings}
    with started(copied(migrated_sqlite, folder), port, function, **settings) as process:
        url = f"http://127.0.0.1:{port}"
        await_answer(f"{url}/healthcheck", process)
        yield url


def get(url, **more):
    return requests.get(url, timeout=30, **{"headers": NEWEST, **more})


def post(url, **more):
    return requests.post(url, timeout=30, headers=NEWEST, **more)


def fault(answer):
    return json.loads(answer.json()["error_message"])["faultstring"]


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

    *first, last = statuses("192.0.2.1", 4)
    assert {404} == {each.status_code for each in first}
    assert 429 == last.status_code
    assert 0 < int(last.headers["Retry-After"]) <= 20
    assert "retry later" in fault(last)
    assert [404] == [each.status_code for each in statuses("192.0.2.2", 1)]
    assert 200 == get(f"{limited}/v1/nodes").status_code


def test_answered_lookups_are_not_limited(migrated_sqlite, tmp_path):
    settings = {"INGOT_API_RESTRICT_LOOKUP": "false"}
    with serving(migrated_sqlite, tmp_path, "with_few_refusals", **settings) as url:
        node = post(f"{url}/v1/nodes", json={"driver": "fake-hardware"}).json()["uuid"]
        found = [get(f"{url}/v1/lookup?node_uuid={node}").status_code for _ in range(10)]
        assert [200] * 10 == found


@pytest.mark.parametrize("path", ["/v1/lookup", "/v1/continue_inspection"])
def test_agents_have_slots_of_their_own_and_callers_theirs(api, monkeypatch, path):
    """While the handlers of all agents' slots hang, callers are answered."""
    held, entered = threading.Event(), threading.Semaphore(0)
    app = create_app(api.runtime)

    def hang():
        if request.path == path:
            entered.release()
            held.wait(PATIENCE)

    app.before_request(hang)
    with ThreadPoolExecutor(80) as pool:
        hung = [pool.submit(app.test_client().open, path) for _ in range(70)]
        try:
            for _ in range(AGENTS_AT_ONCE):
                assert entered.acquire(timeout=PATIENCE)
            answer = pool.submit(app.test_client().get, "/v1/nodes", headers=NEWEST).result(20)
            assert 200 == answer.status_code
            refused = until(lambda: [each for each in hung if each.done()], "refusals")
            assert {503} == {each.result().status_code for each in refused}
            assert "5" == refused[0].result().headers["Retry-After"]
        finally:
            held.set()


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
        asked = [pool.submit(ask, "198.51.100.1") for _ in range(slots + 20)]
        try:
            for _ in range(slots):
                assert entered.acquire(timeout=PATIENCE)
            time.sleep(0.3)  # until the others wait for a slot
            asked.append(pool.submit(ask, "198.51.100.2"))
            while "198.51.100.2" not in order:
                time.sleep(0.1)  # a busy machine may need some until it waits, too
                go.release()
                assert entered.acquire(timeout=PATIENCE)
            assert len(order) - slots <= 10, "it does not wait for all 20"
        finally:
            go.release(len(asked))
        assert {200} == {each.result(30).status_code for each in asked}


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
            until(lambda: sum(each.done() for each in many) >= 72, "72 answers at once")
            assert (429, False) in [poll("192.0.2.1") for _ in range(5)], "refused before Flask"
            # nine places are left for eleven polls of four addresses
            others = [pool.submit(poll, f"192.0.2.{2 + number // 3}") for number in range(11)]
            # questions to machines wait in places of their own
            asked = pool.submit(get, f"{url}/v1/nodes/{node}/management/boot_device/supported")
            assert 503 != asked.result().status_code or "waiting" not in asked.result().text
            found = Counter(each.result() for each in many)
            assert 3 == found[200, False]
            assert found[429, True] >= POLLS
            assert {(200, False): 9, (503, True): 2} == Counter(each.result() for each in others)


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
        with ExitStack() as held:
            for each in holders:
                held.enter_context(services_of(app).followers.polls.hold(each))
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

    with ExitStack() as held:
        for _ in range(MAX_PER_CALLER):
            held.enter_context(followers.polls.hold("127.0.0.1"))
        assert {(429, True)} == {poll("flooding") for _ in range(POLLS)}
        assert (429, False) in [poll("flooding") for _ in range(5)], "refused before Flask"
        assert (429, True) == poll("honest")
    assert (200, False) == poll("honest")


# passwords


@pytest.fixture(scope="module")
def basic(tmp_path_factory):
    """htpasswd file with one user, whose hash is as slow as real ones."""
    path = tmp_path_factory.mktemp("basic") / "htpasswd"
    path.write_text(f"ali:{bcrypt.hashpw(b'sesame', bcrypt.gensalt(10)).decode()}\n")
    return {"INGOT_AUTH_STRATEGY": "http_basic", "INGOT_HTTP_BASIC_AUTH_USER_FILE": str(path)}


def test_unknown_users_take_as_long_as_wrong_passwords(basic):
    checks = PasswordChecks(Clients([]), 0)
    check = HttpBasic(Settings().api, basic["INGOT_HTTP_BASIC_AUTH_USER_FILE"], checks)
    took = {"ali": [], "nonesuch": []}
    for number in range(12):
        for user, times in took.items():
            began = time.thread_time()
            assert not check._is_right(user, f"wrong {number}")
            times.append(time.thread_time() - began)
    known, unknown = (statistics.median(times) for times in took.values())
    assert known == pytest.approx(unknown, rel=0.5)
    assert unknown > 0.01
    assert not check._is_right("nonesuch", "sesame")
    assert check._is_right("ali", "sesame")


def test_few_wrong_passwords_of_an_address_are_checked_and_accepted_ones_still_work(
    migrated_sqlite, tmp_path, basic
):
    settings = {**basic, "INGOT_API_WRONG_PASSWORDS_PER_MINUTE": "5"}
    with serving(migrated_sqlite, tmp_path, **settings) as url:
        nodes = f"{url}/v1/nodes"
        assert 200 == get(nodes, auth=("ali", "sesame")).status_code

        def guess(number):
            user = ("ali", "baba")[number % 2]
            for _ in range(200):
                answer = get(nodes, auth=(user, f"wrong {number}"))
                # 503: of one address eight are checked or wait at a time, fewer than both limits
                # allow; a busy machine may refuse all others before the limits are reached
                if answer.status_code != 503:
                    return answer
                time.sleep(0.1)
            return answer

        with ThreadPoolExecutor(50) as pool:
            futures = [pool.submit(guess, number) for number in range(200)]
            began = time.monotonic()
            slowest = max(seconds_of(get, f"{url}/healthcheck") for _ in range(5))
            answers = [future.result() for future in futures]
        assert slowest < 5  # 200 checks would take ten seconds
        counts = Counter(answer.status_code for answer in answers)
        assert set(counts) == {401, 429}
        # of each user; one more is checked after 12 seconds, on a busy machine
        assert counts[401] <= 2 * (7 + (time.monotonic() - began) / 12)
        limited = next(answer for answer in answers if answer.status_code == 429)
        assert 0 < int(limited.headers["Retry-After"]) <= 12
        assert "wrong passwords" in fault(limited)
        assert 200 == get(nodes, auth=("ali", "sesame")).status_code
        elsewhere = {**NEWEST, "X-Forwarded-For": "192.0.2.7"}
        assert 401 == get(nodes, auth=("ali", "no"), headers=elsewhere).status_code


def test_passwords_are_checked_outside_of_request_slots_two_at_once(basic, api, monkeypatch):
    settings = api.runtime.settings
    default = replace(
        settings.default,
        auth_strategy="http_basic",
        http_basic_auth_user_file=basic["INGOT_HTTP_BASIC_AUTH_USER_FILE"],
    )
    unlimited = replace(settings.api, wrong_passwords_per_minute=0)
    runtime = replace(
        api.runtime, settings=replace(settings, default=default, api=unlimited), cache={}
    )
    entered, leave, at_once = threading.Semaphore(0), threading.Event(), []

    def check(_given, _stored):
        at_once.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        entered.release()
        leave.wait(PATIENCE)
        return False

    monkeypatch.setattr("bcrypt.checkpw", check)
    app = create_app(runtime)

    def guess(number):
        return app.test_client().get("/v1/nodes", auth=("ali", f"wrong {number}"))

    with ThreadPoolExecutor(40) as pool:
        guesses = [pool.submit(guess, number) for number in range(30)]
        try:
            for _ in range(2):
                assert entered.acquire(timeout=PATIENCE)
            until(lambda: sum(each.done() for each in guesses) == 30 - CHECKED // 2, "refusals")
            assert 2 == len(at_once)
            own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
            assert min(at_once) > own or own == 19, "requests get the processor first"
            health = pool.submit(app.test_client().get, "/healthcheck")
            assert 200 == health.result(20).status_code
        finally:
            leave.set()
        statuses = Counter(each.result().status_code for each in guesses)
    assert {401: CHECKED // 2, 503: 30 - CHECKED // 2} == statuses


@pytest.fixture
def guarded(basic, api):
    """An application that checks two wrong passwords of an address in a minute."""
    settings = api.runtime.settings
    changed = replace(
        settings,
        default=replace(
            settings.default,
            auth_strategy="http_basic",
            http_basic_auth_user_file=basic["INGOT_HTTP_BASIC_AUTH_USER_FILE"],
        ),
        api=replace(settings.api, wrong_passwords_per_minute=2),
    )
    return create_app(replace(api.runtime, settings=changed, cache={}))


def from_address(app, address, password, user="ali"):
    headers = {**NEWEST, "X-Forwarded-For": address}
    return app.test_client().get("/v1/nodes", auth=(user, password), headers=headers)


def test_wrong_passwords_beyond_the_limit_are_refused_before_flask(guarded, monkeypatch):
    served, dispatch = [], guarded.full_dispatch_request
    monkeypatch.setattr(
        guarded, "full_dispatch_request", lambda *of: served.append(1) or dispatch(*of)
    )
    assert 200 == from_address(guarded, "192.0.2.1", "sesame").status_code
    served.clear()
    answers = [from_address(guarded, "192.0.2.1", "wrong") for _ in range(6)]
    assert [401] * 2 + [429] * 4 == [each.status_code for each in answers]
    assert 2 == len(served)
    assert 200 == from_address(guarded, "192.0.2.1", "sesame").status_code, "accepted before"
    assert 0 < int(answers[-1].headers["Retry-After"]) <= 30
    assert "wrong passwords" in answers[-1].text
    assert "nosniff" == answers[-1].headers["X-Content-Type-Options"]


def test_a_password_in_use_elsewhere_is_not_guessed_beyond_the_limit(guarded):
    assert 200 == from_address(guarded, "192.0.2.1", "sesame").status_code
    guesses = [from_address(guarded, "192.0.2.2", each) for each in ("a", "b", "c", "sesame")]
    assert [401, 401, 429, 429] == [each.status_code for each in guesses]
    assert 200 == from_address(guarded, "192.0.2.1", "sesame").status_code


def test_wrong_passwords_of_one_user_do_not_stop_others_behind_the_same_address(guarded):
    for _ in range(5):
        from_address(guarded, "192.0.2.1", "wrong", "eve")
    assert 429 == from_address(guarded, "192.0.2.1", "wrong", "eve").status_code
    assert 200 == from_address(guarded, "192.0.2.1", "sesame").status_code, "a new login"


def test_invented_users_stop_only_those_whom_the_address_does_not_know(guarded):
    assert 200 == from_address(guarded, "192.0.2.1", "sesame").status_code
    statuses = []  # one more is checked after three seconds, on a busy machine
    while 429 not in statuses and len(statuses) < 100 * WIDER:
        answer = from_address(guarded, "192.0.2.1", "wrong", f"user-{len(statuses)}")
        statuses.append(answer.status_code)
    assert statuses.count(401) >= 2 * WIDER
    assert 429 == statuses[-1]
    # known from there, also with another password than the remembered one
    guesses = [from_address(guarded, "192.0.2.1", password) for password in ("a", "b", "c")]
    assert [401, 401, 429] == [answer.status_code for answer in guesses]
    assert 200 == from_address(guarded, "192.0.2.1", "sesame").status_code
    assert 200 == from_address(guarded, "192.0.2.2", "sesame").status_code, "elsewhere"


def test_a_stranger_does_not_lock_a_user_out_from_another_address(guarded):
    for number in range(30):
        from_address(guarded, f"198.51.100.{number}", "wrong")
        from_address(guarded, "198.51.100.77", "wrong")
    assert 200 == from_address(guarded, "192.0.2.1", "sesame").status_code


def test_a_right_password_counts_for_no_limit(guarded):
    passwords = ("sesame", "sesame", "a", "b", "c")
    statuses = [from_address(guarded, "192.0.2.1", text).status_code for text in passwords]
    assert [200, 200, 401, 401, 429] == statuses


def seconds_of(call, *arguments):
    began = time.monotonic()
    assert 200 == call(*arguments).status_code
    return time.monotonic() - began


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
