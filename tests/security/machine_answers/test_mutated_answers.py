"""Mutated answers of agents and BMCs: each ends in an outcome or a typed error."""

import json
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.inspection import process as inspection
from drivers.agent import client, in_band, logs, standby
from drivers.core.errors import HardwareError
from drivers.core.steps import Done, Failed, Flow, Wait
from tests.security.hostile import no_thread_left, peak_memory, with_body
from tests.unit.drivers.machines import target

from .conftest import BOMB, COMMAND, JSON, SYSTEM, node, paths, polled, power_of, swept

DOCUMENTS = [COMMAND, {"commands": [COMMAND]}, {"commands": [COMMAND, COMMAND]}, {"commands": []},
             {"faultcode": "Client", "faultstring": "no"}]  # fmt: skip
JUNK = st.one_of(
    st.sampled_from([
        None, True, 0, -1, 1.5, 10**30, float("inf"), "", "x" * 100_000, "\x00\ud800", [], {}, [None],
        [[]], {"a": {"a": {"a": []}}}, [{}], "FAILED", "RUNNING", ["RUNNING"], {"RUNNING": 1},
    ]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    ),
)  # fmt: skip
RAW = st.sampled_from([
    b"", b"<html>", b"[" * 200_000, b'{"a":' * 100_000, b"\xff\xfe", b"[1e999999]", b"1" * 10_000,
    b'{"commands": [{"command_status": "RUNN', b"NaN", b"null", b"[]", b'"x"',
])  # fmt: skip


@st.composite
def mutated(draw, documents=DOCUMENTS):
    """A document of the protocol in which some members are gone or have become something else."""
    tree = {"document": deepcopy(draw(st.sampled_from(documents)))}
    for _ in range(draw(st.integers(1, 3))):
        *way, key = draw(st.sampled_from(list(paths(tree))[1:]))
        holder = tree
        for name in way:
            holder = holder[name]
        if draw(st.booleans()):
            holder[key] = deepcopy(draw(JUNK))
        elif isinstance(holder, dict) and key != "document":
            del holder[key]
    return json.dumps(tree["document"]).encode()


def step(it, **progress):
    clean_step = {"interface": "deploy", "step": "erase_devices", "priority": 10}
    return in_band.execute(_with(it, progress), Flow.CLEAN, clean_step)


def _with(it, progress):
    return replace(it, progress=progress, resumed=bool(progress))


def await_rescue(it):
    rescue = target(interfaces={"rescue": "agent"}).driver.rescue
    return rescue.rescue(
        _with(
            target(
                agent=it.agent, options=it.options, instance_info={"hashed_rescue_password": "x"}
            ),
            {},
        )
    )


def process(it):
    inspect = target(interfaces={"inspect": "agent"}).driver.inspect
    it = target(agent=it.agent, options=it.options)
    outcome = inspect.process(it)
    inspection.process(it)
    return outcome


ORDERS = [
    step,
    lambda it: step(it, sent=True),
    lambda it: step(it, sent=True, command="c1"),
    lambda it: step(it, rebooting="agent", result={}, version={"M": "1"}),
    lambda it: in_band.collect(it, Flow.CLEAN),
    lambda it: in_band.collect(it, Flow.DEPLOY),
    lambda it: in_band.collect(it, Flow.SERVICE),
    lambda it: in_band.was_sent(it, in_band.Order("clean.execute_clean_step")),
    logs.keep,
    standby.partitions,
    await_rescue,
    process,
    lambda it: polled(it.agent.url),
]


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(body=mutated() | RAW, status=st.sampled_from([200, 200, 200, 201, 302, 400, 404, 409, 500]),
       order=st.sampled_from(ORDERS))  # fmt: skip
def test_whatever_an_agent_answers_a_step_has_an_outcome_or_a_typed_error(
    hostile, tmp_path_factory, body, status, order
):
    hostile.request_log.clear()
    hostile.reply = with_body(body, status, Content_Type=JSON)
    it = node(hostile.url)
    it.options["agent"]["deploy_logs_local_path"] = str(tmp_path_factory.getbasetemp() / "logs")
    with suppress(HardwareError):
        outcome = order(it)
        assert isinstance(outcome, Done | Wait | Failed | bool | dict | None)


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(body=mutated([SYSTEM, *DOCUMENTS]) | RAW, status=st.sampled_from([200, 200, 201, 302, 401, 404, 409, 500, 503]),
       read=st.sampled_from([power_of, swept, polled]))  # fmt: skip
def test_whatever_a_bmc_answers_a_command_ends_in_a_typed_error(hostile, body, status, read):
    hostile.request_log.clear()
    hostile.reply = with_body(body, status, Content_Type=JSON)
    with suppress(HardwareError):
        read(hostile.url)


def test_a_thousand_hostile_answers_leave_memory_and_threads_as_they_were(hostile):
    bodies = [b"[" * 200_000, b"[" + b"{}," * 60_000 + b"{}]", b"x" * (3 << 20), BOMB[: 2 << 20]]
    for number in range(40):
        _ask(hostile, bodies[number % len(bodies)])
    earlier_peak = peak_memory()
    with no_thread_left():
        for number in range(200):
            _ask(hostile, bodies[number % len(bodies)])
    assert peak_memory() - earlier_peak < 40


def _ask(hostile, body):
    hostile.request_log.clear()
    hostile.reply = with_body(body, Content_Type=JSON)
    with suppress(HardwareError):
        client.commands(node(hostile.url))
