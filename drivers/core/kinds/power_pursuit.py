"""
Pursuit of a power order: the order, the knowledge about its effect, and its note on the node.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from drivers.core.errors import (
    Busy,
    FailureCode,
    HardwareError,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.kinds.power_settlement import Action, Answer, Order, Reading, decide
from drivers.core.steps import Failed
from drivers.core.target import Target

#: Key of driver_internal_info: a power order whose effect is unknown. {"state": the ordered state,
#: or None if an order without a record may have been sent, "sweeps": readings of the power sync
#: that differ from it}. Missing: no order is pending.
PENDING = "pending_power"


@dataclass(frozen=True, slots=True)
class Pursuit:
    """An order of a step, and what is known of its effect."""

    order: Order
    target_state: str  # power state that it leads to
    answer: Answer = Answer.NONE
    reading: Reading | None = None  # the last one; None: none yet
    looks: int = 0  # consecutive equal readings since the order
    sends: int = 0  # times that the order was sent
    doubted: bool = False  # an earlier order for the opposite state may still take effect
    uncertain: bool = False  # an order of this step may still take effect
    reason: str = ""  # the BMC's reason, if it did not take the order
    code: str = ""  # failure code of this reason
    reading_text: str = ""  # the last reading in words

    @classmethod
    def of(cls, order: Order, target_state: str, progress: Mapping[str, Any]) -> "Pursuit":
        """Return the pursuit that `progress` describes."""
        return cls(
            order,
            target_state,
            answer=Answer(progress["answer"]),
            reading=Reading(progress["reading"]) if progress["reading"] else None,
            looks=int(progress["looks"]),
            sends=int(progress["sent"]),
            doubted=bool(progress["doubted"]),
            uncertain=bool(progress["uncertain"]),
            reason=str(progress["why"]),
            code=str(progress["code"]),
        )

    def progress(self) -> dict[str, Any]:
        """Return the progress of a step that `of` reads."""
        return {
            "answer": str(self.answer),
            "reading": self.reading and str(self.reading),
            "looks": self.looks,
            "sent": self.sends,
            "doubted": self.doubted,
            "uncertain": self.uncertain,
            "why": self.reason,
            "code": self.code,
        }

    def after(self, reading: Reading, state: str | HardwareError | None) -> "Pursuit":
        """Return the pursuit after a reading."""
        answer = self.answer
        if answer is Answer.FINAL and self.reading is Reading.REACHED:
            answer = Answer.REFUSED  # it was refused because the machine was there already
        looks = self.looks + 1 if reading is self.reading and self.looks else 1
        reading_text = "no settled power state" if state is None else str(state)
        return replace(self, answer=answer, reading=reading, looks=looks, reading_text=reading_text)

    def answered(self, answer: Answer, error: HardwareError | None = None) -> "Pursuit":
        """Return the pursuit after an order and its answer; error: the reason, if not taken."""
        reason, code = ("", "") if error is None else (str(error), str(error.code))
        uncertain = self.uncertain or answer in (Answer.TAKEN, Answer.LOST)
        answered_pursuit = replace(
            self, answer=answer, uncertain=uncertain, reason=reason, code=code
        )
        return replace(answered_pursuit, looks=0, sends=self.sends + 1)

    def note(self, target: Target) -> None:
        """Report whether an order is pending: the last one, while any may still take effect."""
        pending = target.driver_internal_info.get(PENDING)
        if self.uncertain or self.doubted:
            pending = {"state": self.target_state, "sweeps": 0}
        report_pending(target, pending)

    @property
    def action(self) -> Action:
        """Next action, by the power table."""
        assert self.reading is not None
        return decide(self.order, self.answer, self.reading, self.looks, doubted=self.doubted)

    def failure(self, state: str | HardwareError | None) -> Failed:
        """Return the failure of the step; raise the error of a reading that ends it."""
        if isinstance(state, HardwareError):
            raise state
        if self.answer is Answer.LOST:
            return Failed(
                f"{self.order} was sent to the machine, and not confirmed: {self.obstacle()}",
                FailureCode.UNCONFIRMED,
            )
        return Failed(self.reason, self.code)

    def obstacle(self) -> str:
        """Return in words why the step is not done yet."""
        observation = f"the BMC shows {self.reading_text!r}"
        if self.reading is Reading.SILENT:
            observation = self.reading_text
        if self.answer is Answer.TAKEN:
            return f"the BMC took the order '{self.order}', and {observation}"
        if self.answer is Answer.LOST:
            reason = self.reason or "its conductor died"
            return (
                f"the answer to the order '{self.order}' is unknown ({reason}), and {observation}"
            )
        return f"{self.reason}; {observation}" if self.reason else observation


def answer_of(error: HardwareError) -> Answer:
    """Return the answer that an error of `Power.order` stands for."""
    if isinstance(error, Unconfirmed | Unexpected):  # also a malformed answer to an order
        return Answer.LOST
    if isinstance(error, Unreachable):
        return Answer.NONE
    return Answer.REFUSED if isinstance(error, Busy) else Answer.FINAL


def report_pending(target: Target, pending: object) -> None:
    """Report the pending order, or None, in place of an earlier report."""
    internal = target.reports.get("driver_internal_info", {})
    internal.pop(PENDING, None)
    if target.driver_internal_info.get(PENDING) != pending:
        internal[PENDING] = pending
    if internal:
        target.reports["driver_internal_info"] = internal
    else:
        target.reports.pop("driver_internal_info", None)
