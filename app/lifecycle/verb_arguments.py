"""Table of the arguments of provisioning verbs: verbs, content, and secrecy of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Content(StrEnum):
    """Content of an argument; the page at /ui has a form field for each."""

    STEPS = "steps"
    RUNBOOK = "runbook"
    CONFIG_DRIVE = "config drive"
    PASSWORD = "password"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of one or more verbs."""

    #: Verbs that take it.
    verbs: tuple[str, ...]
    content: Content
    #: Whether its verbs require it; a runbook serves in place of steps.
    is_required: bool = False
    #: Whether no operation shows it. Rollouts, which keep their request, do not take it.
    is_secret: bool = False


#: Field of a request (`ProvisionTarget`) -> argument. Its microversion is in `versions.ARGUMENTS`.
ARGUMENTS: Mapping[str, Argument] = {
    "clean_steps": Argument(("clean",), Content.STEPS, is_required=True),
    "deploy_steps": Argument(("active", "deploy", "rebuild"), Content.STEPS),
    "service_steps": Argument(("service",), Content.STEPS, is_required=True),
    "runbook": Argument(("clean", "service"), Content.RUNBOOK),
    "disable_ramdisk": Argument(("clean", "service"), Content.FLAG),
    "configdrive": Argument(("active", "deploy", "rebuild"), Content.CONFIG_DRIVE, is_secret=True),
    "rescue_password": Argument(("rescue",), Content.PASSWORD, is_required=True, is_secret=True),
}
#: Arguments that no operation shows.
SECRETS = frozenset(name for name, argument in ARGUMENTS.items() if argument.is_secret)


def arguments_of(verb: str) -> Mapping[str, Argument]:
    return {name: argument for name, argument in ARGUMENTS.items() if verb in argument.verbs}


def required_by(verb: str) -> tuple[str, ...]:
    """Return the arguments one of which a verb requires; the first is the usual one."""
    arguments = arguments_of(verb)
    required = tuple(name for name, argument in arguments.items() if argument.is_required)
    return (*required, "runbook") if required and "runbook" in arguments else required
