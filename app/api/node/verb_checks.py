"""Checks of a verb, its arguments and its microversion, before a request reaches the engine."""

import re
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

from app.api.declarations import versions
from app.api.request.context import Fields, RequestContext
from app.errors import Invalid
from app.lifecycle import flows
from app.lifecycle.provision_states import VERBS, allows
from app.lifecycle.verb_arguments import ARGUMENTS, Content, required_by
from drivers.core.interface_kinds import SOFT_OFF, SOFT_REBOOT
from drivers.core.steps import Flow

_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")
#: Key of a configdrive -> the minor version that introduced it, and the accepted types.
CONFIGDRIVE: Mapping[str, tuple[int, tuple[type, ...]]] = {
    "meta_data": (56, (dict,)),
    "network_data": (56, (dict,)),
    "user_data": (56, (dict, list, str, NoneType)),
    "vendor_data": (59, (dict,)),
}


def check_power(context: RequestContext, target: str, timeout: int | None) -> None:
    """Check the microversion that a power request requires. Raises NotAcceptable."""
    if target in (SOFT_OFF, SOFT_REBOOT) or timeout is not None:
        context.version.require(27, "soft power, or a timeout,")


def check_state(context: RequestContext, verb: str, state: str) -> None:
    """Check the microversion that the verb requires in this state. Raises NotAcceptable."""
    if verb == "abort":
        context.version.require(versions.ABORTS.get(state, versions.MIN), f"abort in {state}")
    if verb in versions.LATE_VERBS and allows(state, VERBS[verb]):
        context.version.require(versions.VERBS[verb], f"target {verb}")


def check_arguments(context: RequestContext, verb: str, arguments: Fields) -> None:
    """
    Check that the verb takes the arguments, and that none which it requires is missing.

    Raises Invalid, NotAcceptable.
    """
    for name in arguments:
        context.version.require(versions.of_argument(name, verb), name)
    for name, value in arguments.items():
        argument = ARGUMENTS[name]
        if argument.content is Content.CONFIG_DRIVE:
            if value not in ({}, ""):
                _check_config_drive(context, verb, value)
            continue
        if "runbook" in arguments and argument.content is Content.STEPS:
            raise Invalid(f'Please provide either "{name}" or a runbook, but not both.')
        if verb not in argument.verbs:
            raise Invalid(_not_taken(name, argument.verbs))
        if argument.content is Content.STEPS:
            _check_allowed(context, name, value)
    required_names = required_by(verb)
    if required_names and not any(_is_given(arguments.get(name)) for name in required_names):
        filled = "A non-empty " if verb == "rescue" else ""
        raise Invalid(
            f'{filled}"{required_names[0]}" is required when setting target provision state to'
            f" {verb}"
        )


def _is_given(value: object) -> bool:
    return bool(value.strip() if isinstance(value, str) else value)


def _not_taken(name: str, verbs: Sequence[str]) -> str:
    if name == "disable_ramdisk":
        return "disable_ramdisk is supported only with manual cleaning or servicing"
    return f'"{name}" is only valid when setting target provision state to {" or ".join(verbs)}'


def _check_allowed(context: RequestContext, name: str, steps: Sequence[Mapping[str, Any]]) -> None:
    """Refuse steps that the settings forbid. Raises Invalid."""
    setting = flows.of_steps(Flow(name.removesuffix("_steps"))).forbidden_steps
    forbidden = getattr(context.runtime.settings.api, setting) if setting else ()
    for step in steps:
        label = f"{step.get('interface')}.{step['step']}"
        if label in forbidden:
            raise Invalid(f"{name}: {label} is not allowed here")


def _check_config_drive(context: RequestContext, verb: str, value: object) -> None:
    """
    Check that the verb takes a configuration drive, in a form of the request's version.

    Raises Invalid.
    """
    if verb not in ARGUMENTS["configdrive"].verbs or (verb == "rebuild" and context.version < 35):
        raise Invalid(f"configdrive: not taken by {verb}")
    if isinstance(value, dict):
        if context.version < 56:
            raise Invalid("configdrive: an object needs API version 1.56")
        for key, part in value.items():
            since, types = CONFIGDRIVE.get(key, (versions.MAX + 1, ()))
            if context.version < since:
                raise Invalid(f"configdrive: {key!r} is not known")
            if not isinstance(part, types):
                raise Invalid(f"configdrive: {key} is of the wrong type")
    elif not isinstance(value, str) or not ("://" in value or _BASE64.fullmatch(value)):
        raise Invalid("configdrive: neither an object, a URL, nor base64")
