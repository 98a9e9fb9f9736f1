"""
What can be wrong with a machine, or with what we were told about it.

HardwareError
├─ Unreachable      no answer in time; trying again is sensible
├─ Refused          the BMC or agent said no: its status and message, secrets masked
│  └─ Busy          for the moment: the machine is in a phase that ends by itself
├─ Unexpected       it answered, but not sense
├─ NotSupported     this machine, or this driver, cannot do it
├─ NotFound         the machine or its BMC has no part of the name that the caller gave
├─ InvalidDriverInfo  the node's settings do not let the driver work; names the field
├─ BadImage         an image cannot be had, or is not what it is said to be; names its URL
├─ BadArgument      a step was given an argument that it cannot use; names it
├─ InspectionFailed  what was found cannot be used, or a rule says so
├─ StepFailed       a step could not do its work; by flow CleanStepFailed, DeployStepFailed,
│                   ServiceStepFailed, VerifyStepFailed, as the specs have drivers raise them
├─ AgentBusy        the agent is running another command; ask again at the next wake-up
└─ LeaseLost        the caller may no longer give orders to this machine

A step may raise any of them: the worker turns it into `Failed`. `retryable` says whether the
same order may succeed later without anybody changing anything.
"""

from enum import StrEnum


class FailureCode(StrEnum):
    """
    Codes of failed steps and operations. A driver may use codes of its own beside them.

    `app.services.faults` has the cause and the hint that operators read.
    """

    HARDWARE_ERROR = "hardware_error"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    BUSY = "busy"
    UNEXPECTED_ANSWER = "unexpected_answer"
    NOT_SUPPORTED = "not_supported"
    NOT_FOUND = "not_found"
    INVALID_DRIVER_INFO = "invalid_driver_info"
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
    TIMEOUT = "timeout"
    CONDUCTOR_DIED = "conductor_died"
    ABORTED = "aborted"
    RESTORED = "restored"
    INCONSISTENT = "inconsistent"
    DEFECT = "defect"


class HardwareError(Exception):
    """The machine, its BMC or its agent did not do what it was asked."""

    retryable = False
    code: str = FailureCode.HARDWARE_ERROR


class Unreachable(HardwareError):
    """No answer in time."""

    retryable = True
    code = FailureCode.UNREACHABLE


class Refused(HardwareError):
    """The BMC or the agent refused the order."""

    code = FailureCode.REFUSED


class Busy(Refused):
    """The BMC refused for the moment; the same order may succeed later."""

    retryable = True
    code = FailureCode.BUSY


class Unexpected(HardwareError):
    """The BMC or the agent answered something that makes no sense."""

    retryable = True
    code = FailureCode.UNEXPECTED_ANSWER


class NotSupported(HardwareError):
    """This machine or this driver cannot do what was asked."""

    code = FailureCode.NOT_SUPPORTED


class NotFound(HardwareError):
    """The machine or its BMC has no part of the name that the caller gave."""

    code = FailureCode.NOT_FOUND


class InvalidDriverInfo(HardwareError):
    """The node's settings do not let its driver work."""

    code = FailureCode.INVALID_DRIVER_INFO


class BadImage(HardwareError):
    """An image cannot be had, or is not what it is said to be."""

    code = FailureCode.BAD_IMAGE


class BadArgument(HardwareError):
    """A step cannot use an argument that it was given."""

    code = FailureCode.BAD_ARGUMENT


class InspectionFailed(HardwareError):
    """What was found cannot be used, or a rule says that it must not be."""

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
    """Another conductor was given this node; no further order may be sent."""

    code = FailureCode.LEASE_LOST
