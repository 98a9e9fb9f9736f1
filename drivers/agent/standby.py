"""
Agents without deploy steps: commands of the extension `standby` in place of steps.

Ramdisks older than the extension `deploy` have `standby.prepare_image`. The oldest ones have no
`get_partition_uuids`; they name the new partitions only in the result of `prepare_image`.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from drivers.agent import client, in_band
from drivers.agent.step_hooks import run_hook
from drivers.core.errors import NotSupported
from drivers.core.steps import Flow, Outcome, Wait
from drivers.core.target import Target

_PREPARE = "prepare_image"
#: Name of a partition in the text of a result -> its key in the answer of get_partition_uuids.
_NAMES = {
    "root_uuid": "root uuid",
    "efi_system_partition_uuid": "efi system partition uuid",
}
_UUID = re.compile(rf"\b({'|'.join(_NAMES)})=(\S+)")


def write_image(target: Target, step: Mapping[str, Any]) -> Outcome:
    """Run the agent's deploy step `write_image`, or `prepare_image` on an agent without steps."""
    if not target.progress.get(_PREPARE):
        try:
            return in_band.execute(target, Flow.DEPLOY, step)
        except NotSupported:
            target = replace(target, progress={**target.progress, _PREPARE: True})
    hook = partial(run_hook, target, Flow.DEPLOY, step["interface"], step["step"])
    order = in_band.Order(f"standby.{_PREPARE}", lambda: dict(step["args"]), hook=hook)
    outcome = in_band.run_once(target, order)
    if isinstance(outcome, Wait):  # the next call continues with the same command
        return replace(outcome, progress={**outcome.progress, _PREPARE: True})
    return outcome


def partitions(target: Target) -> dict[str, object]:
    """Return the UUIDs of the written partitions, by the agent's names."""
    try:
        command = client.run(target, "standby.get_partition_uuids", {}, wait=True)
    except NotSupported:
        return _partitions_in_result(client.commands(target))
    return client.result(target, command)


def _partitions_in_result(commands: list[dict[str, object]]) -> dict[str, object]:
    prepare_commands = [command for command in commands if command.get("command_name") == _PREPARE]
    text = str(prepare_commands[-1].get("command_result")) if prepare_commands else ""
    uuids = {_NAMES[name]: uuid.rstrip("'\"}") for name, uuid in _UUID.findall(text)}
    return {name: uuid for name, uuid in uuids.items() if uuid != "None"}
