"""
Redfish: orders with outcomes, each sent once.

`place` sends an order, `follow` waits for the end of its task. The progress of the step is the
record of the order: the request right before it is sent, its answer afterwards. If a conductor has
crashed in between, or the answer was lost, the order is not sent again: the BMC's tasks and the
machine's state tell whether it was taken.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from drivers.core.bmc import Bmcs
from drivers.core.errors import (
    Busy,
    FailureCode,
    HardwareError,
    LeaseLost,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.steps import AWAITED, Done, Failed, Outcome, Wait
from drivers.core.target import Target
from drivers.redfish.changes import tasks
from drivers.redfish.changes.order_answers import Answer, Result, answer_of
from drivers.redfish.changes.tasks import End, Look, Seen
from drivers.redfish.transport import client
from drivers.redfish.transport.client import Connection
from drivers.redfish.transport.conversions import entry

Record = Mapping[str, Any]
#: Most new tasks among which an order's is looked for.
_MOST_NEW = 20


@dataclass(frozen=True, slots=True)
class Request:
    """Request of an order, as it is recorded before it is sent."""

    method: str
    path: str
    body: Mapping[str, Any] | None  # None: no body
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """Intervals and limits of polls."""

    interval: float  # seconds between polls
    patience: float = 60.0  # seconds in which a task or an effect that is missing may appear
    silence: float = 300.0  # seconds for which the BMC may be silent
    timeout: float | None = None  # of the step, see `Wait`

    def wait(
        self,
        record: Record,
        waits_for: str,
        *,
        reason: str | None = None,
        pause: float | None = None,
    ) -> Wait:
        """
        Return a `Wait` for the next poll.

        waits_for: the awaited event, for operators. reason: see `Wait`. pause: seconds, if not the
        usual ones.
        """
        progress = {**record, AWAITED: waits_for}
        return Wait(progress, self.interval if pause is None else pause, self.timeout, reason)

    def is_over(self, polls: int, seconds: float) -> bool:
        """Whether so many polls take longer than `seconds`."""
        return polls > max(2, seconds / max(self.interval, 0.1))


class Order:
    """An order: its request, and the state that it changes."""

    subject: str  # subject of messages, such as "the update of bios"
    #: whether a lost order may be sent again once the state shows for long that it had no effect
    is_repeatable: ClassVar[bool] = False
    #: whether the step compares the state once the order has ended, without any further effect
    is_compared: ClassVar[bool] = True

    def facts(self, bmc: Connection) -> dict[str, Any]:
        """Read the state before the order, as JSON. Raises HardwareError."""
        raise NotImplementedError

    def request(self, bmc: Connection) -> Request:
        """
        Return the request.

        Raises HardwareError: the order cannot be given; nothing was sent.
        """
        raise NotImplementedError

    def instead(self, request: Request, facts: Record, refusal: str) -> Request | None:
        """
        Return the request to send after this refusal of the BMC, or None if the refusal is final.

        Only a refusal that proves that nothing was done allows another request.
        """
        return None

    def shows_at_restart(self, facts: Record) -> bool:
        """Whether only the restart that follows shows if the BMC has the order."""
        return False

    def difference(self, bmc: Connection, facts: Record) -> str:
        """
        Compare the state with the order, in words; "" if the order has had its effect.

        Raises HardwareError.
        """
        raise NotImplementedError

    def was_taken(self, bmc: Connection, facts: Record) -> bool:
        """Whether the state shows that the BMC has the order. Raises HardwareError."""
        return not self.difference(bmc, facts)


def place(target: Target, bmcs: Bmcs, order: Order, pace: Pace) -> Outcome:
    """
    Send an order, unless an earlier attempt has sent it.

    `Done` once it is accepted: its result is the record, for `follow`.
    """
    record = _recorded(target)
    # a record of the previous release has no mark: an attempt that crashed since may have sent it
    crashed = target.crashes > record.get("crashes", target.crashes)
    if "lost" in record or record.get("sending", crashed):
        return _settle(target, bmcs, order, pace, record)
    if "request" not in record:
        record = _plan(target, bmcs, order)
    answer = send(target, bmcs, record)
    return _decide(target, order, pace, record, answer)


def send(target: Target, bmcs: Bmcs, record: Record) -> Answer:
    """
    Send the request of a record once; the record is kept before, with the mark `sending`.

    Raises LeaseLost: it was not sent.
    """
    request = Request(**record["request"])
    is_sent = False
    try:
        with client.turn(target, bmcs) as bmc:
            bmc.open()
            target.before_order()
            target.keep_progress({**record, "sending": True})
            target.before_order()  # the database may have been slow
            is_sent = True
            reply = bmc.order(request.method, request.path, request.body, request.etag)
    except LeaseLost:
        raise
    except Unconfirmed as error:
        return Answer(Result.UNKNOWN, words=str(error))
    except (Busy, Unreachable) as error:
        return Answer(Result.BUSY, words=str(error))
    except Unexpected as error:
        result = Result.UNKNOWN if is_sent else Result.BUSY
        return Answer(result, words=str(error))
    except HardwareError as error:
        return Answer(Result.REFUSED, words=str(error))
    return answer_of(reply, request.path)


def follow(
    target: Target,
    bmcs: Bmcs,
    order: Order,
    pace: Pace,
    record: Record,
    *,
    is_restarted: bool = False,
) -> Outcome:
    """
    Wait for the end of an order's task.

    `Done` at the end; its result has `end`: succeeded, or unclear if the BMC does not tell it, and
    only a comparison of the state can; or staged, unless the machine was restarted since: then the
    task begins. record: the result of `place`, or of an earlier call.
    """
    record = {**record, **_recorded(target)}
    try:
        with client.turn(target, bmcs) as bmc:
            # some BMCs start a task, and do not name it
            unnamed = None if record["paths"] else _new_task(bmc, record, is_sure=True)
            record = {**record, "paths": record["paths"] or [unnamed]}
            if not record["paths"][0]:
                return Done({**record, "paths": [], "end": End.SUCCEEDED})
            path, look = _look(bmc, record)
            # the job appears late, or is deleted early: the state may tell
            is_missing = look.end is End.MISSING
            is_taken = is_missing and order.was_taken(bmc, record["facts"])
            difference = order.difference(bmc, record["facts"]) if is_missing else ""
    except LeaseLost:
        raise
    except HardwareError as error:
        return _await_answer(order, pace, record, str(error))
    if look.end is End.UNREADABLE:
        look_facts = {"seen": look.seen, "said": look.words}
        return _await_answer(order, pace, {**record, **look_facts}, look.words)
    record = {**record, "seen": look.seen, "silent": 0}
    if look.end is End.RUNNING or (look.end is End.STAGED and is_restarted):
        record = {
            **record,
            "paths": [path, *(known_path for known_path in record["paths"] if known_path != path)],
        }
        pause = max(look.pause, pace.interval)
        return pace.wait({**record, "missing": 0}, f"{order.subject}: task {path}", pause=pause)
    if look.end is End.FAILED:
        return Failed(f"{order.subject} failed: {look.words or record.get('said')}")
    if is_missing and not is_taken:
        return _await_task(order, pace, record, difference)
    return Done({**record, "end": End.SUCCEEDED if is_missing else look.end})


def _await_task(order: Order, pace: Pace, record: Record, difference: str) -> Outcome:
    """Wait for a missing task; then the state alone decides."""
    missing_polls = int(record.get("missing", 0)) + 1
    if not pace.is_over(missing_polls, pace.patience):
        return pace.wait(
            {**record, "missing": missing_polls},
            f"{order.subject}: task {record['paths'][0]}, which the BMC does not show",
        )
    # a task that was read has ended; one that was never seen may still run
    if order.is_compared or (record["seen"] and not difference):
        return Done({**record, "end": End.UNCLEAR if difference else End.SUCCEEDED})
    reason = f"the BMC does not have its task {record['paths'][0]}"
    return _unconfirmed(order, f"{reason}, and {difference}" if difference else reason)


def _plan(target: Target, bmcs: Bmcs, order: Order) -> dict[str, Any]:
    """Return the request, and the state before it. Raises HardwareError: names the order."""
    try:
        with client.turn(target, bmcs) as bmc:
            request = asdict(order.request(bmc))
            facts = order.facts(bmc)
            record = {"request": request, "facts": facts, "tasks": tasks.listed(bmc)}
            return {**record, "sending": False, **_crashes(target)}
    except LeaseLost:
        raise
    except HardwareError as error:
        raise type(error)(f"{order.subject} was not ordered: {error}") from error


def _decide(target: Target, order: Order, pace: Pace, record: Record, answer: Answer) -> Outcome:
    """Return the outcome of an answer."""
    record = {**record, **_crashes(target)}
    if answer.result in (Result.REFUSED, Result.UNKNOWN) and answer.status is not None:
        request = Request(**record["request"])
        other_request = order.instead(request, record["facts"], answer.words)
        if other_request is not None:
            return Wait({**record, "request": asdict(other_request)}, poll_after=0)
    if answer.result is Result.REFUSED:
        return Failed(f"{order.subject} was not ordered: {answer.words}", FailureCode.REFUSED)
    if answer.result is Result.BUSY:
        tries = int(record.get("refusals", 0)) + 1
        if pace.is_over(tries, pace.patience):
            target.keep_progress(record)  # without the mark: the next attempt sends it
            reason = f"{order.subject} was not ordered: {answer.words}"
            return Failed(reason, FailureCode.BUSY, retryable=True)
        awaited_event = f"the BMC to accept {order.subject}"
        return pace.wait({**record, "refusals": tries}, awaited_event, reason=answer.words)
    if answer.result is Result.UNKNOWN:
        return _await_effect(order, pace, {**record, "lost": answer.words, "looks": 0})
    return Done({**record, "paths": list(answer.paths)})


def _settle(target: Target, bmcs: Bmcs, order: Order, pace: Pace, record: Record) -> Outcome:
    """Find out whether an order without an answer was taken."""
    loss_reason = record.get("lost", "its answer was not recorded")
    looks = int(record.get("looks", 0)) + 1
    is_taken, path = False, None
    try:
        with client.turn(target, bmcs) as bmc:
            path = _new_task(bmc, record)
            is_taken = path is None and order.was_taken(bmc, record["facts"])
    except LeaseLost:
        raise
    except HardwareError as error:
        return _await_answer(order, pace, {**record, "lost": loss_reason}, str(error))
    is_late = pace.is_over(looks, pace.patience)
    if path is not None or is_taken or (is_late and order.shows_at_restart(record["facts"])):
        return Done({**record, "paths": [path] if path else []})
    record = {**record, "lost": loss_reason, "looks": looks, "silent": 0}
    if not is_late:
        return _await_effect(order, pace, record)
    if not order.is_repeatable or record.get("repeated"):
        return _unconfirmed(order, loss_reason)
    kept_facts = {name: value for name, value in record.items() if name not in ("lost", "looks")}
    unsent_record = {**kept_facts, "sending": False, "repeated": True}
    return Wait({**unsent_record, **_crashes(target)}, poll_after=0)


def _await_effect(order: Order, pace: Pace, record: Record) -> Wait:
    """Wait for the effect of an order without an answer."""
    reason = f"whether the BMC has taken {order.subject} is not known: {record['lost']}"
    return pace.wait(record, f"an effect of {order.subject}", reason=reason)


def _await_answer(order: Order, pace: Pace, record: Record, error: str) -> Outcome:
    """Wait for a BMC that is silent, as it may be restarting."""
    silent_polls = int(record.get("silent", 0)) + 1
    if pace.is_over(silent_polls, pace.silence):
        return _unconfirmed(order, f"the BMC cannot be read since then: {error}")
    return pace.wait({**record, "silent": silent_polls}, "the BMC to answer", reason=error)


def _crashes(target: Target) -> Record:
    """Return the part of a record that tells the previous release whether an attempt crashed."""
    return {"crashes": target.crashes}


def _recorded(target: Target) -> dict[str, Any]:
    """Return the record of an order in the progress, without the words for operators."""
    return {name: value for name, value in target.progress.items() if name != AWAITED}


def _look(bmc: Connection, record: Record) -> tuple[str, Look]:
    """Look at a task; at its monitor, if the BMC lacks it; then at its job."""
    seen_state = Seen(record.get("seen", ""))
    path, look = "", Look(End.MISSING, seen=seen_state)
    for path in record["paths"]:
        look = tasks.look(bmc, path, seen_state)
        if look.end is not End.MISSING:
            return path, look
    job = tasks.in_queue(bmc, record["paths"][0])
    if job is None or job in record["tasks"]:
        job = _new_task(bmc, record, is_sure=True)
    return (job, tasks.look(bmc, job, seen_state)) if job else (path, look)


def _new_task(bmc: Connection, record: Record, *, is_sure: bool = False) -> str | None:
    """
    Return the path of the only task that is newer than the record, and may be the order's.

    is_sure: the task says so itself.

    Raises HardwareError: whether there is one cannot be read.
    """
    order_path = record["request"]["path"]
    task_paths = tasks.listed(bmc, is_whole=True)
    new_paths = [path for path in task_paths if path not in record["tasks"]][:_MOST_NEW]
    documents = {path: bmc.find(path) for path in new_paths}
    own_paths = [path for path in new_paths if tasks.is_of(documents[path], order_path)]
    sure = [path for path in own_paths if entry(documents[path], "Payload", "TargetUri")]
    candidates = (sure,) if is_sure else (sure, own_paths)
    return next((paths[0] for paths in candidates if len(paths) == 1), None)


def _unconfirmed(order: Order, reason: str) -> Failed:
    return Failed(f"{order.subject} was ordered, not confirmed: {reason}", FailureCode.UNCONFIRMED)
