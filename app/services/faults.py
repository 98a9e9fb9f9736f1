"""
Faults: the cause behind the code of a failure, and a hint for operators.
"""

from collections.abc import Mapping
from typing import Any

from app.models import OperationStep
from drivers.core.errors import FailureCode
from drivers.core.steps import Failed

#: code of a failure -> (cause, hint)
KNOWN: Mapping[str, tuple[str, str]] = {
    FailureCode.UNREACHABLE: (
        "the BMC or the agent did not answer in time",
        "check that its address can be reached from the conductor, and that it is up",
    ),
    FailureCode.REFUSED: (
        "the BMC or the agent refused the order",
        "read its message; credentials, licences and locked settings are the usual reasons",
    ),
    FailureCode.BUSY: (
        "the BMC refuses the order while the machine is in POST",
        "ask again once the machine has booted",
    ),
    FailureCode.UNEXPECTED_ANSWER: (
        "the BMC or the agent answered something that makes no sense",
        "try again; if it stays, look for a firmware update or a quirk of this model",
    ),
    FailureCode.NOT_SUPPORTED: (
        "this machine, or its driver, cannot do it",
        "choose another interface for the node, or leave the step out",
    ),
    FailureCode.INVALID_DRIVER_INFO: (
        "the node's settings do not let its driver work",
        "correct the field that the message names",
    ),
    FailureCode.BAD_IMAGE: (
        "an image cannot be had, or is not what it is said to be",
        "correct the image's server, or what instance_info says of the image",
    ),
    FailureCode.INSPECTION_FAILED: (
        "what inspection found cannot be used, or an inspection rule refuses it",
        "read the message; hooks are listed in [inspector]hooks, rules at /v1/inspection_rules",
    ),
    FailureCode.AGENT_BUSY: (
        "the agent was running another command",
        "try again when it has ended",
    ),
    FailureCode.AGENT_FAILED: (
        "the agent could not do the step",
        "read its message, and its log on the console of the machine",
    ),
    FailureCode.VERSION_MISMATCH: (
        "the agent's hardware managers are not those that listed the steps",
        "use one ramdisk image for all boots of an operation, then ask again",
    ),
    FailureCode.INVALID_STEPS: (
        "the steps that were asked for are not those that the node offers",
        "compare them with GET /v1/nodes/<node>/<cleaning|deploy|service>/steps",
    ),
    FailureCode.BAD_ARGUMENT: (
        "a step found an argument that it cannot use",
        "correct it and ask again",
    ),
    FailureCode.TIMEOUT: (
        "the machine did not call, or did not get there, in time",
        "check its boot medium, network and ports; raise the callback timeout if it was only slow",
    ),
    FailureCode.CONDUCTOR_DIED: (
        "each conductor that ran the step died or hung",
        "look at the logs of the conductors that the steps of the operation name",
    ),
    FailureCode.ABORTED: (
        "somebody asked for it",
        "ask for the verb again when it shall be done after all",
    ),
    FailureCode.RESTORED: (
        "the database was restored from a backup that was made while this was under way",
        "look at the machine, correct the node, then end its maintenance",
    ),
    FailureCode.INCONSISTENT: (
        "the rows of the node and of its operation did not fit each other",
        "look at the machine, correct the node, then ask again",
    ),
    FailureCode.DEFECT: (
        "the code of a step has a defect",
        "report it with the log of the conductor",
    ),
}
_OTHER = ("the step says that it failed", "read its message")


def document(step: OperationStep, failure: Failed) -> dict[str, Any]:
    """A failure as `error` of an operation: code, message, step, attempt, cause, hint, ..."""
    return described(failure.code, failure.reason) | {
        "step": step.label,
        "attempt": step.attempts,
        "retryable": failure.retryable,
    }


def described(code: str, message: str) -> dict[str, Any]:
    cause, hint = KNOWN.get(code, _OTHER)
    return {"code": str(code), "message": message, "cause": cause, "hint": hint}
