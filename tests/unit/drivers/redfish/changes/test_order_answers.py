"""Answers to orders: each order is sent once."""

import itertools
from dataclasses import replace

import pytest

from drivers.core.errors import Busy, HardwareError, LeaseLost, Unreachable
from drivers.core.steps import Done, Wait
from drivers.redfish.changes import order_answers
from drivers.redfish.changes.order_answers import Result
from drivers.redfish.transport import errors
from drivers.redfish.transport.client import Reply
from drivers.simulator.redfish_bmc.documents import ROOT, SYSTEM
from tests.unit.drivers.crashes import attempt_of
from tests.unit.drivers.documents import sweep_of
from tests.unit.drivers.redfish.scripted import (
    ACCEPTED,
    LOST,
    MONITOR,
    TASK,
    UPDATE,
    Died,
    ScriptedBmc,
    error,
    run,
    task,
)

from .conftest import BIOS, resets, then, update, updated

# Answers to orders


@pytest.mark.parametrize(
    ("reply", "result", "paths"),
    [
        (Reply(202, None, MONITOR), Result.TASK, (MONITOR,)),
        (Reply(202, None, f"https://10.0.0.1:8443{MONITOR}"), Result.TASK, (MONITOR,)),
        (Reply(202, None, "../../TaskService/TaskMonitors/JID_1"), Result.TASK, (MONITOR,)),
        (Reply(202, {"@odata.id": TASK, "TaskState": "New"}, None), Result.TASK, (TASK,)),
        (Reply(202, {"@odata.id": TASK, "TaskState": "New"}, MONITOR), Result.TASK, (TASK, MONITOR)),
        (
            Reply(202, {"@odata.id": TASK, "TaskState": "New", "TaskMonitor": MONITOR}, None),
            Result.TASK, (TASK, MONITOR),
        ),
        (Reply(202, {"@odata.id": TASK}, None), Result.TASK, (TASK,)),
        (Reply(200, {"@odata.id": TASK, "TaskState": "Running"}, None), Result.TASK, (TASK,)),
        (Reply(200, None, TASK), Result.TASK, (TASK,)),
        (Reply(202, None, None), Result.UNKNOWN, ()),
        (Reply(202, [], "http://[bad"), Result.UNKNOWN, ()),
        (Reply(200, {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.Success"}]}), Result.DONE, ()),
        (Reply(201, {"@odata.id": "/redfish/v1/x"}, "/redfish/v1/x"), Result.DONE, ()),
        (Reply(204, None), Result.DONE, ()),
        (Reply(200, error(400)[2]), Result.REFUSED, ()),
        (Reply(400, error(400)[2]), Result.REFUSED, ()),
        (Reply(404, "x"), Result.REFUSED, ()),
        (Reply(501, None), Result.REFUSED, ()),
        (Reply(409, None), Result.BUSY, ()),
        (Reply(503, None), Result.BUSY, ()),
        (Reply(400, error(400, name="iLO.2.14.UnableToModifyDuringSystemPOST")[2]), Result.BUSY, ()),
        (Reply(500, error(500)[2]), Result.UNKNOWN, ()),
        (Reply(504, None), Result.UNKNOWN, ()),
        (Reply(302, None), Result.UNKNOWN, ()),
    ],
)  # fmt: skip
def test_an_answer_to_an_order_has_a_type(reply, result, paths):
    answer = order_answers.answer_of(reply, UPDATE)
    assert (result, paths) == (answer.result, answer.paths)


@pytest.mark.parametrize("name", errors._BUSY_MESSAGES)
@pytest.mark.parametrize(
    "template",
    [{"MessageId": "Vendor.1.0.{}"}, {"MessageId": "Vendor.1.0.Error", "Message": "{}: not now"}],
)
def test_a_message_of_a_busy_bmc_has_one_meaning_for_reads_and_orders(name, template):
    message = {key: text.format(name) for key, text in template.items()}
    document = {"error": {"code": "x", "message": "no", "@Message.ExtendedInfo": [message]}}
    assert Result.BUSY == order_answers.answer_of(Reply(400, document), UPDATE).result
    with pytest.MonkeyPatch.context() as patch:
        bmc = ScriptedBmc(scripts={("GET", SYSTEM): [(400, {}, document)]}).install(patch)
        with pytest.raises(Busy):
            bmc.node().driver.power.get_power_state(bmc.node())
        assert Busy is type(sweep_of(bmc.node()))


#: answer to the order -> (whether the step succeeds, words of its failure); the version changes
ANSWERED = {
    "200 message": ((200, {}, {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.Success"}]}), ""),
    "204": ((204, {}, None), ""),
    "200 garbage": ((200, {}, b"<html>"), ""),
    "202 without a task": ((202, {}, None), ""),
    "lost": (LOST, ""),
    "500": (error(500, "oops"), ""),
    "502": ((502, {}, b"<html>"), ""),
    "400": (error(400, "no"), "was not ordered: 400: no"),
    "403": (error(403, "no"), "was not ordered"),
    "501": ((501, {}, None), "was not ordered: 501"),
}

# Each order is sent once


@pytest.mark.parametrize(("answer", "reason"), ANSWERED.values(), ids=ANSWERED.keys())
def test_an_order_is_sent_once_whatever_its_answer(bmc, node, answer, reason):
    effect = (lambda: None) if reason else updated(bmc)
    bmc.scripts = {("POST", UPDATE): [then(effect, answer)]}
    outcome, _ = update(node)
    if reason:
        assert f"the update of bios {reason}" in outcome.reason
        assert [] == resets(bmc)
    else:
        assert isinstance(outcome, Done)
    assert 1 == len(bmc.sent("SimpleUpdate"))


@pytest.mark.parametrize("answer", [LOST, error(500, "oops"), (202, {}, None)])
def test_an_order_without_an_answer_or_an_effect_is_not_confirmed(bmc, node, answer):
    bmc.scripts = {("POST", UPDATE): [answer]}
    outcome, _ = update(node)
    assert outcome.reason.startswith("the update of bios was ordered, not confirmed: ")
    assert "unconfirmed" == outcome.code
    assert (1, []) == (len(bmc.sent("SimpleUpdate")), resets(bmc))


@pytest.mark.parametrize("busy", [error(503), error(409), error(429), Unreachable("no route")])
def test_an_order_that_was_not_sent_or_is_refused_for_now_is_sent_later(bmc, node, busy):
    def raising():
        raise busy

    turn = raising if isinstance(busy, Exception) else busy
    bmc.scripts = {
        ("POST", UPDATE): [turn, turn, ACCEPTED],
        ("GET", TASK): [then(updated(bmc), task("Completed"))],
    }
    assert isinstance(update(node)[0], Done)
    assert 3 == len(bmc.sent("SimpleUpdate"))


def test_an_order_that_is_always_refused_for_now_was_not_ordered(bmc, node):
    bmc.scripts = {("POST", UPDATE): [error(503, "later")]}
    outcome, _ = update(node)
    assert ("the update of bios was not ordered: 503: later", "busy", True) == (
        outcome.reason, outcome.code, outcome.retryable,
    )  # fmt: skip


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_failed_read_before_an_order_says_that_it_was_not_ordered(bmc, node, status):
    bmc.scripts = {("GET", f"{ROOT}/UpdateService"): [error(status)]}
    raised, _ = update(node)
    assert isinstance(raised, HardwareError)
    assert str(raised).startswith("the update of bios was not ordered: ")
    assert [] == bmc.orders


def new_task(bmc, state="Completed", uri=UPDATE, name="JID_9"):
    """Return an effect: the BMC has a new task for an order to this path."""
    path = f"{ROOT}/TaskService/Tasks/{name}"

    def create():
        bmc.more.setdefault(f"{ROOT}/TaskService/Tasks", {"Members": []})["Members"].append(
            {"@odata.id": path}
        )
        bmc.more[path] = task(state, "OK", path=path, Payload={"TargetUri": uri})[2]

    return create


def test_a_lost_order_is_recognised_by_its_task(bmc, node):
    other_task = new_task(bmc, "Exception", f"{ROOT}/Other", "JID_8")
    bmc.more[f"{ROOT}/TaskService/Tasks"] = {"Members": []}
    bmc.scripts = {("POST", UPDATE): [then(lambda: (other_task(), new_task(bmc)()), LOST)]}
    assert isinstance(update(node)[0], Done)
    assert 1 == len(bmc.sent("SimpleUpdate"))


@pytest.mark.parametrize(
    ("state", "is_good"), [("Running", False), ("Completed", True), ("Exception", False)]
)
def test_a_task_that_the_answer_does_not_name_is_followed(bmc, node, state, is_good):
    bmc.more[f"{ROOT}/TaskService/Tasks"] = {"Members": []}
    bmc.scripts = {("POST", UPDATE): [then(new_task(bmc, state), (204, {}, None))]}
    outcome, _ = run(node, "firmware", "update", polls=100, settings=BIOS)
    assert is_good == isinstance(outcome, Done)
    assert is_good == bool(resets(bmc))


def test_two_new_tasks_that_may_be_the_orders_confirm_nothing(bmc, node):
    bmc.more[f"{ROOT}/TaskService/Tasks"] = {"Members": []}
    first_task, second_task = (
        new_task(bmc, "Completed", None, name) for name in ("JID_8", "JID_9")
    )
    bmc.scripts = {("POST", UPDATE): [then(lambda: (first_task(), second_task()), LOST)]}
    assert "not confirmed" in update(node)[0].reason


# Deaths of the conductor


@pytest.mark.parametrize("number", range(12))
def test_a_death_at_any_call_of_an_update_orders_it_once(bmc, node, number):
    """The outcome of the call is lost after its effect; the BMC lists its tasks."""
    bmc.more[f"{ROOT}/TaskService/Tasks"] = {"Members": []}
    path = f"{ROOT}/TaskService/Tasks/JID_9"
    accepted = (202, {"Location": path}, None)
    bmc.scripts = {("POST", UPDATE): [then(new_task(bmc), accepted)]}
    outcome, _ = run(node, "firmware", "update", crash=lambda call: call == number, settings=BIOS)
    assert isinstance(outcome, Done)
    assert 1 == len(bmc.sent("SimpleUpdate"))


def dying(number=1):
    """Return a function at whose call with this number the conductor dies."""
    calls = itertools.count(1)

    def call(*_):
        if next(calls) == number:
            raise Died

    return call


def test_an_order_is_sent_after_a_death_before_its_record(bmc, node):
    """The lease is checked before the record, and after it, right before the request."""
    bmc.scripts = {
        ("POST", UPDATE): [ACCEPTED], ("GET", TASK): [then(updated(bmc), task("Completed"))],
    }  # fmt: skip
    outcome, _ = update(replace(node, before_order=dying()))
    assert isinstance(outcome, Done)
    assert 1 == len(bmc.sent("SimpleUpdate"))


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_death_around_an_order_that_leaves_no_trace_is_not_confirmed(bmc, node, is_sent):
    """After the record, the conductor dies right before the request, or before its answer."""
    if not is_sent:
        node = replace(node, before_order=dying(2))
    die = dying() if is_sent else (lambda: None)
    bmc.scripts = {("POST", UPDATE): [then(die, (204, {}, None))]}
    outcome, _ = update(node)
    assert "was ordered, not confirmed: its answer was not recorded" in outcome.reason
    assert (int(is_sent), []) == (len(bmc.sent("SimpleUpdate")), resets(bmc))


def test_an_order_whose_record_cannot_be_kept_is_not_sent(bmc, node):
    def lose(_progress):
        raise LeaseLost("the operation was dispatched again")

    with pytest.raises(LeaseLost):
        node.driver.firmware.run(replace(node, keep_progress=lose), "update", {"settings": BIOS})
    assert [] == bmc.sent("SimpleUpdate")


def test_an_order_that_was_refused_for_long_is_sent_after_a_further_crash(bmc, node):
    """Its record loses the mark with which it was sent."""
    bmc.scripts = {("POST", UPDATE): [error(503, "busy")]}
    node = attempt_of(node)
    outcome = node.driver.firmware.run(node, "update", {"settings": BIOS})
    while isinstance(outcome, Wait):
        node = attempt_of(replace(node, progress=outcome.progress))
        outcome = node.driver.firmware.run(node, "update", {"settings": BIOS})
    assert outcome.retryable
    assert not node.keep_progress.progress["order"]["sending"]


@pytest.mark.parametrize(("crashes", "sends"), [(0, 1), (1, 0)])
def test_the_record_of_the_previous_release_has_its_crashes_as_the_mark(bmc, node, crashes, sends):
    bmc.scripts = {("POST", UPDATE): [ACCEPTED]}
    dead_node = attempt_of(replace(node, before_order=dying(2)))
    with pytest.raises(Died):
        dead_node.driver.firmware.run(dead_node, "update", {"settings": BIOS})
    record = dead_node.keep_progress.progress["order"]
    assert 0 == record["crashes"]
    del record["sending"]
    node = replace(node, progress={"order": record}, crashes=crashes)
    node.driver.firmware.run(node, "update", {"settings": BIOS})
    assert sends == len(bmc.sent("SimpleUpdate"))


def test_a_crash_before_the_record_of_an_order_does_not_concern_it(bmc, node):
    bmc.scripts = {
        ("POST", UPDATE): [ACCEPTED], ("GET", TASK): [then(updated(bmc), task("Completed"))],
    }  # fmt: skip
    outcome, _ = run(replace(node, crashes=2, resumed=True), "firmware", "update", settings=BIOS)
    assert isinstance(outcome, Done)
