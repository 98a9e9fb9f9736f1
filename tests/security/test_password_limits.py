"""Floods of wrong passwords, while others log in."""

import os
import statistics
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import bcrypt
import pytest

from app.api.authentication.passwords import CHECKED, WIDER, PasswordChecks
from app.api.authentication.strategies import HttpBasic
from app.api.transport.client_addresses import Clients
from app.config.settings import Settings
from app.server.application import create_app
from tests.contract.test_server import NEWEST
from tests.security.served import fault, get, serving
from tests.support.fleet import PATIENCE, until


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
    known_time, unknown_time = (statistics.median(times) for times in took.values())
    assert known_time == pytest.approx(unknown_time, rel=0.5)
    assert unknown_time > 0.01
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
            until(lambda: sum(future.done() for future in guesses) == 30 - CHECKED // 2, "refusals")
            assert 2 == len(at_once)
            own_priority = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
            assert min(at_once) > own_priority or own_priority == 19, (
                "requests get the processor first"
            )
            health = pool.submit(app.test_client().get, "/healthcheck")
            assert 200 == health.result(20).status_code
        finally:
            leave.set()
        statuses = Counter(future.result().status_code for future in guesses)
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
    assert [401] * 2 + [429] * 4 == [answer.status_code for answer in answers]
    assert 2 == len(served)
    assert 200 == from_address(guarded, "192.0.2.1", "sesame").status_code, "accepted before"
    assert 0 < int(answers[-1].headers["Retry-After"]) <= 30
    assert "wrong passwords" in answers[-1].text
    assert "nosniff" == answers[-1].headers["X-Content-Type-Options"]


def test_a_password_in_use_elsewhere_is_not_guessed_beyond_the_limit(guarded):
    assert 200 == from_address(guarded, "192.0.2.1", "sesame").status_code
    guesses = [
        from_address(guarded, "192.0.2.2", password) for password in ("a", "b", "c", "sesame")
    ]
    assert [401, 401, 429, 429] == [guess.status_code for guess in guesses]
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
