"""
Faults: what the code of a failure means, and what an operator may do about it.
"""

from collections.abc import Mapping
from typing import Any

from app.models import OperationStep
from drivers.steps import Failed

#: code of a failure -> (what caused it, what to do)
_KNOWN: Mapping[str, tuple[str, str]] = {
    "unreachable": (
        "the BMC or the agent did not answer in time",
        "check that its address can be reached from the conductor, and that it is up",
    ),
    "refused": (
        "the BMC or the agent refused the order",
        "read its message; credentials, licences and locked settings are the usual reasons",
    ),
    "busy": (
        "the BMC refuses the order while the machine is in POST",
        "ask again once the machine has booted",
    ),
    "unexpected_answer": (
        "the BMC or the agent answered something that makes no sense",
        "try again; if it stays, look for a firmware update or a quirk of this model",
    ),
    "not_supported": (
        "this machine, or its driver, cannot do it",
        "choose another interface for the node, or leave the step out",
    ),
    "invalid_driver_info": (
        "the node's settings do not let its driver work",
        "correct the field that the message names",
    ),
    "bad_image": (
        "an image cannot be had, or is not what it is said to be",
        "correct the image's server, or what instance_info says of the image",
    ),
    "inspection_failed": (
        "what inspection found cannot be used, or an inspection rule refuses it",
        "read the message; hooks are listed in [inspector]hooks, rules at /v1/inspection_rules",
    ),
    "agent_busy": ("the agent was running another command", "try again when it has ended"),
    "agent_failed": (
        "the agent could not do the step",
        "read its message, and its log on the console of the machine",
    ),
    "version_mismatch": (
        "the agent's hardware managers are not those that listed the steps",
        "use one ramdisk image for all boots of an operation, then ask again",
    ),
    "invalid_steps": (
        "the steps that were asked for are not those that the node offers",
        "compare them with GET /v1/nodes/<node>/<cleaning|deploy|service>/steps",
    ),
    "bad_argument": ("a step found an argument that it cannot use", "correct it and ask again"),
    "timeout": (
        "the machine did not call, or did not get there, in time",
        "check its boot medium, network and ports; raise the callback timeout if it was only slow",
    ),
    "conductor_died": (
        "each conductor that ran the step died or hung",
        "look at the logs of the conductors that the steps of the operation name",
    ),
    "aborted": ("somebody asked for it", "ask for the verb again when it shall be done after all"),
    "restored": (
        "the database was restored from a backup that was made while this was under way",
        "look at the machine, correct the node, then end its maintenance",
    ),
    "inconsistent": (
        "the rows of the node and of its operation did not fit each other",
        "look at the machine, correct the node, then ask again",
    ),
    "defect": ("the code of a step has a defect", "report it with the log of the conductor"),
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
    cause, hint = _KNOWN.get(code, _OTHER)
    return {"code": code, "message": message, "cause": cause, "hint": hint}
