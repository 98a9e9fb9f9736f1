"""
Failure catalogue: cause and operator hint of each failure code.
"""

from collections.abc import Mapping
from typing import Any

from app.models import OperationStep
from drivers.core.errors import FailureCode
from drivers.core.steps import Failed

#: Failure code -> (cause, hint).
KNOWN: Mapping[str, tuple[str, str]] = {
    FailureCode.UNREACHABLE: (
        "the BMC or the agent did not answer in time",
        "check that its address can be reached from the conductor, and that it is up",
    ),
    FailureCode.UNCONFIRMED: (
        "a command was sent to the BMC, and its answer was lost",
        "look at the machine whether the command was carried out, before you request it again",
    ),
    FailureCode.REFUSED: (
        "the BMC or the agent refused the command",
        "read its message; rights of the user, licences and locked settings are the usual reasons",
    ),
    FailureCode.LOGIN_REFUSED: (
        "the BMC does not accept the user and the password in driver_info",
        "correct them; after several failures the BMC may have locked the user for some minutes",
    ),
    FailureCode.BUSY: (
        "the BMC refuses commands while the machine is in POST",
        "request it again after the machine has booted",
    ),
    FailureCode.UNEXPECTED_ANSWER: (
        "the answer of the BMC or the agent is malformed",
        "try again; if it persists, look for a firmware update or a known defect of this model",
    ),
    FailureCode.NOT_SUPPORTED: (
        "this machine, or its driver, does not support it",
        "choose another interface for the node, or leave the step out",
    ),
    FailureCode.INVALID_DRIVER_INFO: (
        "driver_info of the node is incomplete or invalid",
        "correct the field that the message names",
    ),
    FailureCode.ACCOUNT_LOCKED: (
        "the BMC refuses logins for a while, after too many wrong ones",
        "wait until the lock-out has passed, and look for the program that uses a wrong password",
    ),
    FailureCode.PASSWORD_UNSETTLED: (
        "the BMC's password was being changed, and which of two passwords it has is unknown",
        "run management.rotate_bmc_password again, which tries both; else set one by hand",
    ),
    FailureCode.SECRETS_UNAVAILABLE: (
        "the vault that has the BMC's password did not give it, or did not keep a new one",
        "look at the vault, which may be sealed, or lack policies: `ingot doctor` names the reason",
    ),
    FailureCode.BAD_IMAGE: (
        "an image cannot be fetched, or does not match its description",
        "check the image's server, and the image's fields in instance_info",
    ),
    FailureCode.INSPECTION_FAILED: (
        "the findings of the inspection are invalid, or an inspection rule refuses them",
        "read the message; hooks are listed in [inspector]hooks, rules at /v1/inspection_rules",
    ),
    FailureCode.AGENT_BUSY: (
        "the agent was running another command",
        "try again when it has ended",
    ),
    FailureCode.AGENT_FAILED: (
        "the agent failed to run the step",
        "read its message, and the agent's log, if one is kept: GET /v1/nodes/<node>/agent-logs",
    ),
    FailureCode.VERSION_MISMATCH: (
        "the agent's hardware managers are not those that listed the steps",
        "use one ramdisk image for all boots of an operation, then request it again",
    ),
    FailureCode.INVALID_STEPS: (
        "the node does not offer the requested steps, with these arguments, or in this order",
        "compare them with GET /v1/nodes/<node>/<cleaning|deploy|service>/steps",
    ),
    FailureCode.BAD_ARGUMENT: (
        "a step refused one of its arguments",
        "correct it and ask again",
    ),
    FailureCode.BENCHMARK_FAILED: (
        "a number that the step has measured is not as a baseline expects",
        "compare it with others: GET /v1/nodes/<node>/benchmarks; repair it, or correct the rule",
    ),
    FailureCode.TIMEOUT: (
        "the agent sent no heartbeat, or the machine did not reach the expected state, in time",
        "check its boot medium, network and ports; raise the callback timeout if it was only slow",
    ),
    FailureCode.CONDUCTOR_DIED: (
        "every conductor that ran the step crashed or hung",
        "read the logs of the conductors named by the operation's steps",
    ),
    FailureCode.ABORTED: (
        "a caller requested the abort",
        "request the verb again if the operation is still wanted",
    ),
    FailureCode.RESTORED: (
        "the database was restored from a backup made while the operation was active",
        "check the machine, correct the node, then end its maintenance",
    ),
    FailureCode.INCONSISTENT: (
        "the rows of the node and of its operation were inconsistent",
        "check the machine, correct the node, then request the verb again",
    ),
    FailureCode.DEFECT: (
        "the code of a step has a defect",
        "report it with the log of the conductor",
    ),
}
_UNKNOWN_CODE = ("the step reported a failure", "read its message")


def document(step: OperationStep, failure: Failed) -> dict[str, Any]:
    """Build the `error` document of an operation from the failure of a step, which it names."""
    message = failure.reason
    if step.flow and step.name not in message:  # frame steps are not the caller's
        message = f"{step.label}: {message}"
    return describe(failure.code, message) | {
        "step": step.label,
        "attempt": step.attempt,
        "retryable": failure.retryable,
    }


def with_cleanup(
    error: Mapping[str, object], step: OperationStep, failure: Failed
) -> dict[str, object]:
    """Add the failure of a cleanup step to an `error` document; only the first one is added."""
    if "cleanup" in error:
        return dict(error)
    cleanup = f"Cleanup failed in {step.label}: {failure.reason}"
    message = f"{str(error['message']).rstrip('.')}. {cleanup}"
    return {**error, "message": message, "cleanup": step.label}


def describe(code: str, message: str) -> dict[str, object]:
    """Build an `error` document: code, message, cause and hint."""
    cause, hint = KNOWN.get(code, _UNKNOWN_CODE)
    return {"code": str(code), "message": message, "cause": cause, "hint": hint}
