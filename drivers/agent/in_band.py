"""
In-band work: commands that the agent runs while the operation waits.

`run_once` runs one command exactly once, also when a conductor dies in between. `execute` runs a
step in this way; `collect` fetches the agent's steps.

The agent runs one command at a time and keeps its command list until it restarts. After the death
of a conductor, that list shows which commands arrived.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import orjson

from drivers.agent import burn_in, client, erasure
from drivers.agent.step_hooks import run_hook
from drivers.core.errors import AgentBusy, FailureCode, NotSupported, Unexpected, Unreachable
from drivers.core.steps import Done, Failed, Flow, Outcome, Wait, arguments
from drivers.core.target import Target, run_parts

#: Key that identifies a step of ours in the agent's command list.
MARK = "ingot_step"
#: Restarts of the agent during one command; one more fails the step.
RESTARTS = 2
#: Seconds before the next try with an agent that is busy or did not answer: its next heartbeat may
#: be minutes away.
RETRY = 5.0
#: Most steps of a flow that an agent may list, and most bytes of the list: they are in the row of
#: the node, and each becomes a row of an operation.
MOST_STEPS, LONGEST_STEPS = 512, 256 << 10
#: Key of the numbers that a step has measured, in its return value.
METRICS = "metrics"
#: Size limit of a recorded command's result: an answer about an operation has the results of all
#: its steps.
LONGEST_RESULT = 64 << 10


class CommandStatus(StrEnum):
    """Status of a command, from the agent's command list."""

    FRESH = "fresh"  # unknown to the agent: it has restarted since
    OTHER = "other"  # never arrived: the last command is another one
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    MISMATCH = "version_mismatch"


@dataclass(frozen=True, slots=True)
class Order:
    """A long-running command for the agent."""

    name: str  # "extension.command"
    params: Callable[[], dict[str, object]] = dict  # called only when the command is sent
    step: Mapping[str, object] | None = None  # the step that the command executes, if any
    #: called with the result of a command that has succeeded: a long one is not kept
    hook: Callable[[object], None] = lambda _result: None
    #: called after the hook: facts that are kept with the result, by their names
    facts: Callable[[], Mapping[str, object]] = dict

    @property
    def command(self) -> str:
        return self.name.rpartition(".")[2]


def command_status(
    commands: Sequence[Mapping[str, object]], order: Order, command_id: str | None = None
) -> tuple[CommandStatus, Mapping[str, object]]:
    """
    Return the status of an order, and the list entry that shows it.

    command_id: id that the agent gave the command; None if its answer was lost. Without an id, a
    succeeded step is recognized by its echo in the result. Other commands do not name their step:
    as the agent runs one at a time, the last command is either this one, or this one never arrived.

    Raises Unexpected: the protocol has no such status.
    """
    if command_id is not None:
        candidates = [command for command in commands if command.get("id") == command_id]
    else:
        newer_commands = _since_listed(commands)
        candidates = [command for command in newer_commands if _echoes(command, order)] or list(
            newer_commands
        )
    if not candidates:
        return CommandStatus.FRESH, {}
    last_command = candidates[-1]
    if last_command.get("command_name") != order.command:
        return CommandStatus.OTHER, last_command
    status = str(last_command.get("command_status"))
    if (
        status == "SUCCEEDED"
        and command_id is None
        and order.step
        and not _echoes(last_command, order)
    ):
        return CommandStatus.OTHER, last_command
    if status.endswith("VERSION_MISMATCH"):
        return CommandStatus.MISMATCH, last_command
    if status not in ("RUNNING", "SUCCEEDED", "FAILED"):
        raise Unexpected(f"the agent reports an unknown status of {order.command}: {status}")
    return CommandStatus(status.lower()), last_command


def command_ended(document: Mapping[str, object]) -> bool:
    """
    Return whether the agent is idle, by its answer to `GET /v1/commands/`.

    Raises Unexpected: the answer is not a list of commands.
    """
    commands = client.command_list(document)
    return not commands or commands[-1].get("command_status") != "RUNNING"


def was_sent(target: Target, order: Order) -> bool:
    """Return whether the agent runs or has run an order. Call it after a conductor's death."""
    return command_status(client.commands(target), order)[0] in (
        CommandStatus.RUNNING,
        CommandStatus.SUCCEEDED,
    )


def run_once(target: Target, order: Order) -> Outcome:
    """
    Run a command on the agent exactly once; `Done({"result": ...})` when it has succeeded.

    Waits for the agent's first heartbeat, for an idle agent, and for the end of the command. A
    command that is lost in a restart of the agent is sent again, at most `RESTARTS` times.
    """
    progress = dict(target.progress)
    if not target.agent.url:
        return Wait(progress)
    try:
        if progress.get("sent") or target.resumed:
            command_id = progress.get("command")
            status, command = command_status(client.commands(target), order, command_id)
            if status not in (CommandStatus.FRESH, CommandStatus.OTHER):
                return _outcome(target, order, status, command, progress)
            if command_id is not None:
                progress = {"restarts": progress.get("restarts", 0) + 1}
                if progress["restarts"] > RESTARTS:
                    return Failed(
                        f"the agent restarted {RESTARTS + 1} times while it ran {_label(order)}"
                    )
        command = client.run(target, order.name, order.params(), wait=False)
        status, _ = command_status([command], order, command.get("id"))
        return _outcome(target, order, status, command, progress)
    except AgentBusy as error:
        return Wait(progress, poll_after=RETRY, reason=str(error))
    except Unreachable as error:  # the command may have arrived: the next call reads the list first
        return Wait({**progress, "sent": True}, poll_after=RETRY, reason=str(error))


def execute(target: Target, flow: Flow, step: Mapping[str, Any]) -> Outcome:
    """
    Run a step of the agent, then its hook, and the reboot if the step requests one.

    `Done.result` is {"result": return value of the step}, after an erasure with `erasure.evidence`.
    The numbers under `METRICS` of the return value are reported.
    """
    outcome = _execute(target, flow, step)
    if isinstance(outcome, Done):
        returned = outcome.result.get("result")
        if isinstance(returned, Mapping) and METRICS in returned:
            target.report(benchmarks=returned[METRICS])
    return outcome


def _execute(target: Target, flow: Flow, step: Mapping[str, Any]) -> Outcome:
    progress = target.progress
    if "rebooting" in progress:
        return _reboot(target, flow, progress)
    agent_step = {**step, "args": step.get("args") or {}}
    if target.step_id:
        agent_step[MARK] = target.step_id
    order = Order(
        f"{flow}.execute_{flow}_step",
        lambda: {
            "step": agent_step,
            **node_and_ports(target),
            f"{flow}_version": dict(target.agent.hardware_manager_version),
        },
        agent_step,
        partial(run_hook, target, flow, step["interface"], step["step"]),
        partial(erasure.evidence, target) if erasure.is_one(flow, step) else dict,
    )
    outcome = run_once(target, order)
    if not isinstance(outcome, Done):
        return outcome
    if step.get("reboot_requested"):
        version = dict(target.agent.hardware_manager_version)
        return Wait({"rebooting": True, "result": outcome.result, "version": version}, poll_after=0)
    return outcome


def collect(target: Target, flow: Flow) -> Outcome:
    """
    Wait for the agent, then report its steps of a flow as `agent_steps`, and its version.

    An agent without support for the flow has no steps; the result names the extension it `lacks`.

    Raises Unexpected: a step in the answer is malformed.
    """
    if not target.agent.url:
        return Wait(target.progress)
    try:
        command = client.run(target, f"{flow}.get_{flow}_steps", node_and_ports(target), wait=True)
        answer = client.result(target, command)
    except NotSupported:
        if flow is Flow.CLEAN:
            raise
        target.report(agent_steps={flow.value: []}, hardware_manager_version={})
        return Done({"lacks": flow.value})
    except (AgentBusy, Unreachable) as error:
        return Wait(target.progress, poll_after=RETRY, reason=str(error))
    by_manager = answer.get(f"{flow}_steps")
    version = answer.get("hardware_manager_version")
    if not isinstance(by_manager, dict) or not isinstance(version, dict):
        raise Unexpected(f"the agent did not list its {flow} steps and their version")
    if not all(isinstance(entries, list) for entries in by_manager.values()):
        raise Unexpected(f"the agent did not list the {flow} steps of each hardware manager")
    steps = [step for entries in by_manager.values() for step in entries]
    if len(steps) > MOST_STEPS or len(orjson.dumps([by_manager, version])) > LONGEST_STEPS:
        raise Unexpected(
            f"the agent listed {len(steps)} {flow} steps; at most {MOST_STEPS} are read, with"
            f" {LONGEST_STEPS >> 10} KiB of text"
        )
    for step in steps:
        _check_step(flow, step)
    target.report(agent_steps={flow.value: steps}, hardware_manager_version=version)
    return Done()


def node_and_ports(target: Target) -> dict[str, object]:
    """Return the node and its ports, as sent to the agent with each command about steps."""
    internal_info = target.record.get("driver_internal_info") or {}
    node = {
        "uuid": target.uuid,
        **target.record,
        "driver_info": burn_in.parameters(target),
        "driver_internal_info": {**erasure.settings(target), **internal_info},
    }
    ports = [
        {
            "uuid": nic.uuid,
            "address": nic.address,
            "pxe_enabled": nic.pxe_enabled,
            "extra": dict(nic.extra),
        }
        for nic in target.nics
    ]
    return {"node": node, "ports": ports}


def _outcome(
    target: Target,
    order: Order,
    status: CommandStatus,
    command: Mapping[str, object],
    progress: Mapping[str, object],
) -> Outcome:
    if status is CommandStatus.RUNNING:
        return Wait({**progress, "sent": True, "command": command.get("id")})
    if status is CommandStatus.SUCCEEDED:
        result = _result_field(command, "_result")
        order.hook(result)
        size = len(orjson.dumps(result))
        kept_result = result if size <= LONGEST_RESULT else f"{size} bytes, not kept"
        return Done({"result": kept_result, **order.facts()})
    if status is CommandStatus.MISMATCH:
        return Failed(
            f"{_label(order)}: the agent's hardware managers have changed since it listed its"
            " steps",
            code=FailureCode.VERSION_MISMATCH,
        )
    return Failed(
        f"{_label(order)}: {client.failure_reason(target, dict(command))}",
        code=FailureCode.AGENT_FAILED,
    )


def _reboot(target: Target, flow: Flow, progress: Mapping[str, Any]) -> Outcome:
    """Boot the agent again, wait for it, and check that its steps have not changed."""
    driver = target.driver
    if progress["rebooting"] is True:
        parts = {"boot": driver.boot.boot_agent_next, "power": driver.power.reboot}
        outcome = run_parts(target, parts)
        if not isinstance(outcome, Done):
            return outcome
        # poll at once, with a fresh target: this one describes the agent before the reboot
        return Wait({**progress, "rebooting": "agent"}, poll_after=0)
    outcome = collect(target, flow)
    if not isinstance(outcome, Done):
        return outcome
    if target.reports["hardware_manager_version"] != progress["version"]:
        return Failed(
            "the agent's hardware managers changed at a reboot", code=FailureCode.VERSION_MISMATCH
        )
    return Done(progress["result"])


def _check_step(flow: Flow, step: object) -> None:
    if not isinstance(step, dict) or not {"interface", "step", "priority"} <= step.keys():
        raise Unexpected(
            f"a {flow} step of the agent lacks interface, step or priority: {step!r:.300}"
        )
    priority = step["priority"]
    if isinstance(priority, bool) or not isinstance(priority, int | float):
        raise Unexpected(f"the agent's {flow} step {step['step']!r} has the priority {priority!r}")
    if flow is Flow.DEPLOY and priority > 0 and not 41 <= priority <= 99:
        raise Unexpected(
            f"the agent's deploy step {step['step']!r} has priority {priority:g};"
            " the agent's steps run only between 41 and 99"
        )
    try:
        arguments(step.get("argsinfo"))
    except (ValueError, TypeError, AttributeError) as error:
        raise Unexpected(f"the agent's {flow} step {step['step']!r}: {error}") from error


def _since_listed(commands: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    """
    Return the commands since the agent last listed its steps; older ones belong to another plan.
    """
    names = [str(command.get("command_name")) for command in commands]
    listing_indexes = [
        index
        for index, name in enumerate(names)
        if name.startswith("get_") and name.endswith("_steps")
    ]
    return commands[listing_indexes[-1] + 1 :] if listing_indexes else commands


def _echoes(command: Mapping[str, object], order: Order) -> bool:
    """Return whether the result of a command names the step of an order."""
    echoed = _result_field(command, "_step")
    return (
        order.step is not None
        and command.get("command_name") == order.command
        and isinstance(echoed, Mapping)
        and all(echoed.get(key) == order.step.get(key) for key in ("interface", "step", MARK))
    )


def _result_field(command: Mapping[str, object], suffix: str) -> object:
    """Return `clean_result` or `clean_step` (by suffix) of a result, else the whole result."""
    result = command.get("command_result")
    if isinstance(result, Mapping):
        for flow in Flow:
            if f"{flow}{suffix}" in result:
                return result[f"{flow}{suffix}"]
    return result


def _label(order: Order) -> str:
    if order.step is None:
        return order.name
    return f"{order.step['interface']}.{order.step['step']}"
