"""
Errors of machines, BMCs and agents, and of the settings that describe them.

HardwareError
├─ Unreachable      no answer in time; a command was not sent
│  └─ Unconfirmed   a command was sent, and its answer was lost: it may have been carried out
├─ Refused          the BMC or agent refused: its status and message, secrets masked
│  ├─ LoginRefused  the BMC does not accept the user and the password
│  └─ Busy          temporary: the machine is in a phase that ends by itself
│     └─ AccountLocked  the BMC refuses logins for a while, after too many wrong ones
├─ Unexpected       malformed or contradictory answer
│  └─ WithoutEffect a command was accepted, and the machine's state does not show its effect
├─ NotSupported     this machine or this driver lacks the function
├─ NotFound         the machine or its BMC has no part with the given name
├─ InvalidDriverInfo  invalid setting of the node; names the field
├─ PasswordUnsettled  it is unknown which of two passwords the BMC has
├─ SecretsUnavailable  the vault that has the node's secrets does not give them now
│  └─ VaultUnreachable  the vault does not answer, or is sealed
├─ BadImage         image cannot be fetched, or fails its checks; names its URL
├─ BadArgument      invalid argument of a step; names it
├─ InspectionFailed  inspection data is unusable, or an inspection rule failed it
├─ StepFailed       a step could not do its work; by flow CleanStepFailed, DeployStepFailed,
│                   ServiceStepFailed, VerifyStepFailed, as the specs have drivers raise them
├─ AgentBusy        the agent is running another command
└─ LeaseLost        another conductor owns the machine now

A step may raise any of them: the worker turns it into `Failed`.
"""

from enum import StrEnum


class FailureCode(StrEnum):
    """
    Codes of failed steps and operations. A driver may add its own.

    `app.lifecycle.failures` lists cause and hint of each code for operators.
    """

    HARDWARE_ERROR = "hardware_error"
    UNREACHABLE = "unreachable"
    UNCONFIRMED = "unconfirmed"
    REFUSED = "refused"
    LOGIN_REFUSED = "login_refused"
    BUSY = "busy"
    UNEXPECTED_ANSWER = "unexpected_answer"
    NOT_SUPPORTED = "not_supported"
    NOT_FOUND = "not_found"
    INVALID_DRIVER_INFO = "invalid_driver_info"
    ACCOUNT_LOCKED = "account_locked"
    PASSWORD_UNSETTLED = "password_unsettled"
    SECRETS_UNAVAILABLE = "secrets_unavailable"
    BAD_IMAGE = "bad_image"
    BAD_ARGUMENT = "bad_argument"
    INSPECTION_FAILED = "inspection_failed"
    STEP_FAILED = "step_failed"
    AGENT_BUSY = "agent_busy"
    AGENT_FAILED = "agent_failed"
    VERSION_MISMATCH = "version_mismatch"
    LEASE_LOST = "lease_lost"
    # given by the service itself
    INVALID_STEPS = "invalid_steps"
    BENCHMARK_FAILED = "benchmark_failed"
    TIMEOUT = "timeout"
    CONDUCTOR_DIED = "conductor_died"
    ABORTED = "aborted"
    RESTORED = "restored"
    INCONSISTENT = "inconsistent"
    DEFECT = "defect"


class HardwareError(Exception):
    """Base of all errors of a machine, its BMC or its agent."""

    retryable = False  # whether a retry may succeed without a change by an operator
    code: str = FailureCode.HARDWARE_ERROR


class Unreachable(HardwareError):
    """No answer in time."""

    retryable = True
    code = FailureCode.UNREACHABLE


class Unconfirmed(Unreachable):
    """
    A command was sent, and its answer was lost: whether it was carried out is unknown.

    Never send the command again: read the state that it changes, and compare.
    """

    retryable = False
    code = FailureCode.UNCONFIRMED


class Refused(HardwareError):
    """The BMC or the agent refused the command."""

    code = FailureCode.REFUSED


class LoginRefused(Refused):
    """The BMC does not accept the user and the password."""

    code = FailureCode.LOGIN_REFUSED


class Busy(Refused):
    """The BMC refused for now; the same command may succeed later."""

    retryable = True
    code = FailureCode.BUSY


class AccountLocked(Busy):
    """
    The BMC refuses logins for a while, also with the right password.

    retry_after: seconds that it asks to wait; 0: it does not say.
    """

    retryable = False  # each further login may prolong it
    code = FailureCode.ACCOUNT_LOCKED

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unexpected(HardwareError):
    """The BMC or the agent sent a malformed or contradictory answer."""

    retryable = True
    code = FailureCode.UNEXPECTED_ANSWER


class WithoutEffect(Unexpected):
    """The BMC accepted a command, and the state of the machine does not show its effect."""


class NotSupported(HardwareError):
    """This machine or this driver lacks the requested function."""

    code = FailureCode.NOT_SUPPORTED


class NotFound(HardwareError):
    """The machine or its BMC has no part with the given name."""

    code = FailureCode.NOT_FOUND


class InvalidDriverInfo(HardwareError):
    """A setting of the node is invalid or missing; the message names the field."""

    code = FailureCode.INVALID_DRIVER_INFO


class PasswordUnsettled(HardwareError):
    """A change of the BMC's password has not ended: the BMC has one of two passwords."""

    code = FailureCode.PASSWORD_UNSETTLED


class SecretsUnavailable(HardwareError):
    """
    The vault does not give, or does not keep, secrets of the node now.

    It says nothing about the machine: wait and try again.
    """

    retryable = True
    code = FailureCode.SECRETS_UNAVAILABLE


class VaultUnreachable(SecretsUnavailable):
    """The vault does not answer, or cannot serve any request."""


class BadImage(HardwareError):
    """An image cannot be fetched, or fails its checks."""

    code = FailureCode.BAD_IMAGE


class BadArgument(HardwareError):
    """An argument of a step is invalid."""

    code = FailureCode.BAD_ARGUMENT


class InspectionFailed(HardwareError):
    """Inspection data is unusable, or an inspection rule failed the inspection."""

    code = FailureCode.INSPECTION_FAILED


class StepFailed(HardwareError):
    """A step could not do its work."""

    code = FailureCode.STEP_FAILED


class CleanStepFailed(StepFailed):
    """A clean step could not do its work."""


class DeployStepFailed(StepFailed):
    """A deploy step could not do its work."""


class ServiceStepFailed(StepFailed):
    """A service step could not do its work."""


class VerifyStepFailed(StepFailed):
    """A verify step could not do its work."""


class AgentBusy(HardwareError):
    """The agent is running another command."""

    retryable = True
    code = FailureCode.AGENT_BUSY


class LeaseLost(HardwareError):
    """Another conductor owns this node now; no further command may be sent."""

    code = FailureCode.LEASE_LOST
