"""
In-band work: commands that the agent runs while we wait.

`judge` reads the agent's command list; `once` sees to it that one command is run exactly once,
whoever died meanwhile; `execute` does that for a step, and `collect` asks for the agent's steps.
The agent keeps its list until it restarts and runs one command at a time: the list is what can be
asked after a death.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from drivers.agent import client
from drivers.agent.hooks import run_hook
from drivers.core.errors import AgentBusy, FailureCode, NotSupported, Unexpected, Unreachable
from drivers.core.steps import Done, Failed, Flow, Outcome, Resume, Step, Wait, arguments, nest
from drivers.core.target import Target

#: the key by which a step that we sent is known again in the agent's list
MARK = "ingot_step"
RESTARTS = 2
#: Seconds until an agent that is busy, or did not answer, is tried again: its next heartbeat may be
#: minutes away.
RETRY = 5.0


class Verdict(StrEnum):
    """What the agent's list says about the command that we wait for."""

    FRESH = "fresh"  # the agent has started since, and knows nothing of it
    OTHER = "other"  # the last command is somebody else's: ours never arrived
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    MISMATCH = "version_mismatch"


@dataclass(frozen=True, slots=True)
class Order:
    """
    A command for the agent that takes its time.

    name: "extension.command". params: built only when the command is sent. step: the step that it
    carries, if it carries one.
    """

    name: str
    params: Callable[[], dict[str, Any]] = dict
    step: Mapping[str, Any] | None = None

    @property
    def command(self) -> str:
        return self.name.rpartition(".")[2]


def judge(
    commands: Sequence[Mapping[str, Any]], order: Order, sent: str | None = None
) -> tuple[Verdict, Mapping[str, Any]]:
    """
    What became of an order, and the command that says so.

    sent: the id that the agent gave the command; None when its answer was lost. Then a step that
        has succeeded is told by what the command echoes; of any other the agent does not say which
        step it is, but as it runs one at a time, the last one is ours, or ours never arrived.
    Raises Unexpected for a status that the protocol does not know.
    """
    if sent is not None:
        work = [each for each in commands if each.get("id") == sent]
    else:
        since = _since_listed(commands)
        work = [each for each in since if _echoes(each, order)] or list(since)
    if not work:
        return Verdict.FRESH, {}
    last = work[-1]
    if last.get("command_name") != order.command:
        return Verdict.OTHER, last
    status = str(last.get("command_status"))
    if status == "SUCCEEDED" and sent is None and order.step and not _echoes(last, order):
        return Verdict.OTHER, last
    if status.endswith("VERSION_MISMATCH"):
        return Verdict.MISMATCH, last
    if status not in ("RUNNING", "SUCCEEDED", "FAILED"):
        raise Unexpected(f"the agent says that {order.command} is {status}")
    return Verdict(status.lower()), last


def command_ended(document: Mapping[str, Any]) -> bool:
    """Whether the agent is idle, by its answer to `GET /v1/commands/`. Raises Unexpected."""
    listed = client.command_list(document)
    return not listed or listed[-1].get("command_status") != "RUNNING"


def was_given(target: Target, order: Order) -> bool:
    """Whether the agent runs an order or has run it, by its list: to be asked after a death."""
    return judge(client.commands(target), order)[0] in (Verdict.RUNNING, Verdict.SUCCEEDED)


def once(target: Target, order: Order) -> Outcome:
    """
    Have the agent run a command once; `Done({"result": ...})` when it has succeeded.

    Waits for the agent to announce itself, to be idle, and to finish. A command that is lost
    because the agent started anew is sent again, `RESTARTS` times.
    """
    progress = dict(target.progress)
    if not target.agent.url:
        return Wait(progress)
    try:
        if progress.get("sent") or target.resumed:
            sent = progress.get("command")
            verdict, command = judge(client.commands(target), order, sent)
            if verdict not in (Verdict.FRESH, Verdict.OTHER):
                return _outcome(target, order, verdict, command, progress)
            if sent is not None:
                progress = {"restarts": progress.get("restarts", 0) + 1}
                if progress["restarts"] > RESTARTS:
                    return Failed(
                        f"the agent restarted again and again while it ran {_what(order)}"
                    )
        command = client.run(target, order.name, order.params(), wait=False)
        verdict, _ = judge([command], order, command.get("id"))
        return _outcome(target, order, verdict, command, progress)
    except AgentBusy:
        return Wait(progress, poll_after=RETRY)
    except Unreachable:  # it may have arrived all the same: the next call looks first
        return Wait({**progress, "sent": True}, poll_after=RETRY)


def execute(target: Target, flow: Flow, step: Mapping[str, Any]) -> Outcome:
    """
    Run a step of the agent's; afterwards its hook, and the reboot that it may ask for.

    `Done.result` is {"result": what the step returned}.
    """
    progress = target.progress
    if "rebooting" in progress:
        return _reboot(target, flow, progress)
    sent = {**step, "args": step.get("args") or {}}
    if target.step_id:
        sent[MARK] = target.step_id
    order = Order(
        f"{flow}.execute_{flow}_step",
        lambda: {
            "step": sent,
            **node_and_ports(target),
            f"{flow}_version": dict(target.agent.hardware_manager_version),
        },
        sent,
    )
    outcome = once(target, order)
    if not isinstance(outcome, Done):
        return outcome
    run_hook(target, flow, step["interface"], step["step"], outcome.result.get("result"))
    if step.get("reboot_requested"):
        version = dict(target.agent.hardware_manager_version)
        return Wait({"rebooting": True, "result": outcome.result, "version": version}, poll_after=0)
    return outcome


def collect(target: Target, flow: Flow) -> Outcome:
    """
    Wait for the agent, then report its steps for a flow as `agent_steps`, and its version.

    An agent that knows no such flow has no steps. Raises Unexpected for a step that is none.
    """
    if not target.agent.url:
        return Wait(target.progress)
    try:
        command = client.run(target, f"{flow}.get_{flow}_steps", node_and_ports(target), wait=True)
        answer = client.result(target, command)
    except NotSupported:
        if flow is Flow.CLEAN:
            raise
        answer = {f"{flow}_steps": {}, "hardware_manager_version": {}}
    except (AgentBusy, Unreachable):
        return Wait(target.progress, poll_after=RETRY)
    by_manager = answer.get(f"{flow}_steps")
    version = answer.get("hardware_manager_version")
    if not isinstance(by_manager, dict) or not isinstance(version, dict):
        raise Unexpected(f"the agent did not list its {flow} steps and their version")
    steps = [step for listed in by_manager.values() for step in listed]
    for step in steps:
        _check(flow, step)
    target.report(agent_steps={flow.value: steps}, hardware_manager_version=version)
    return Done()


def steps_of(target: Target, flow: Flow) -> list[Step]:
    """
    The agent's steps of a flow, in its order, with the priorities that settings give them.

    Left out are those that the node's driver does itself under the same name (`write_image`), and
    those about RAID where the agent is not the node's RAID interface.
    """
    driver = target.driver
    own = {step.key for step in (*driver.steps(flow), *driver.steps(flow, target))}
    other_raid = flow is not Flow.SERVICE and target.driver.raid.name != "agent"
    settings = target.driver.deploy.priority_settings if flow is Flow.CLEAN else {}
    found = []
    for step in target.agent.steps.get(flow.value, ()):
        key = (step["interface"], step["step"])
        if key in own or (key[0] == "raid" and other_raid):
            continue
        setting = settings.get(key[1]) if key[0] == "deploy" else None
        override = target.options["deploy"].get(setting) if setting else None
        found.append(
            Step(
                *key,
                priorities={flow: step["priority"] if override is None else override},
                args=arguments(step.get("argsinfo")),
                abortable=bool(step.get("abortable", flow is Flow.DEPLOY)),
                in_band=True,
                resume=Resume.PROBE,
                reboot_requested=bool(step.get("reboot_requested")),
            )
        )
    return found


def node_and_ports(target: Target) -> dict[str, Any]:
    """What the agent is told of the node with every command about steps."""
    options = target.options["deploy"]
    erasure = {key: options[name] for key, name in _ERASURE.items()}
    erasure["agent_continue_if_secure_erase_failed"] = options[
        "continue_if_disk_secure_erase_fails"
    ]
    known = target.record.get("driver_internal_info") or {}
    node = {"uuid": target.uuid, **target.record, "driver_internal_info": {**erasure, **known}}
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
    verdict: Verdict,
    command: Mapping[str, Any],
    progress: Mapping[str, Any],
) -> Outcome:
    if verdict is Verdict.RUNNING:
        return Wait({**progress, "sent": True, "command": command.get("id")})
    if verdict is Verdict.SUCCEEDED:
        return Done({"result": _value(command, "_result")})
    if verdict is Verdict.MISMATCH:
        return Failed(
            f"{_what(order)}: the agent's hardware managers have changed since it listed its steps",
            code=FailureCode.VERSION_MISMATCH,
        )
    return Failed(
        f"{_what(order)}: {client.complaint(target, dict(command))}", code=FailureCode.AGENT_FAILED
    )


def _reboot(target: Target, flow: Flow, progress: Mapping[str, Any]) -> Outcome:
    """Boot the agent again, wait for it, and see that its steps are still the same."""
    driver = target.driver
    if progress["rebooting"] is True:
        prepared = nest(driver.boot.boot_agent_next(target.part("boot")), "boot", progress)
        if not isinstance(prepared, Done):
            return prepared
        outcome = nest(driver.power.reboot(target.part("power")), "power", progress)
        if not isinstance(outcome, Done):
            return outcome
        # called again at once: what we know of the agent is from before the reboot
        return Wait({**progress, "rebooting": "agent"}, poll_after=0)
    outcome = collect(target, flow)
    if not isinstance(outcome, Done):
        return outcome
    if target.reports["hardware_manager_version"] != progress["version"]:
        return Failed(
            "the agent's hardware managers changed at a reboot", code=FailureCode.VERSION_MISMATCH
        )
    return Done(progress["result"])


def _check(flow: Flow, step: Any) -> None:
    if not isinstance(step, dict) or not {"interface", "step", "priority"} <= step.keys():
        raise Unexpected(f"a {flow} step of the agent lacks interface, step or priority: {step!r}")
    priority = step["priority"]
    if isinstance(priority, bool) or not isinstance(priority, int | float):
        raise Unexpected(f"the agent's {flow} step {step['step']!r} has the priority {priority!r}")
    if flow is Flow.DEPLOY and priority and not 41 <= priority <= 99:
        raise Unexpected(
            f"the agent's deploy step {step['step']!r} has priority {priority:g};"
            " the agent's steps run only between 41 and 99"
        )
    try:
        arguments(step.get("argsinfo"))
    except (ValueError, TypeError, AttributeError) as error:
        raise Unexpected(f"the agent's {flow} step {step['step']!r}: {error}") from error


def _since_listed(commands: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The commands since the agent last listed its steps: those before belong to another plan."""
    names = [str(each.get("command_name")) for each in commands]
    listed = [
        at for at, name in enumerate(names) if name.startswith("get_") and name.endswith("_steps")
    ]
    return commands[listed[-1] + 1 :] if listed else commands


def _echoes(command: Mapping[str, Any], order: Order) -> bool:
    """Whether a command that has succeeded was given with the step of an order."""
    echoed = _value(command, "_step")
    return (
        order.step is not None
        and command.get("command_name") == order.command
        and isinstance(echoed, Mapping)
        and all(echoed.get(key) == order.step.get(key) for key in ("interface", "step", MARK))
    )


def _value(command: Mapping[str, Any], suffix: str) -> Any:
    """`clean_result` or `clean_step` (by suffix) of a result; a result without them is itself."""
    result = command.get("command_result")
    if isinstance(result, Mapping):
        for flow in Flow:
            if f"{flow}{suffix}" in result:
                return result[f"{flow}{suffix}"]
    return result


def _what(order: Order) -> str:
    if order.step is None:
        return order.name
    return f"{order.step['interface']}.{order.step['step']}"


#: the agent's name of an erasure setting, in driver_internal_info -> ours, in [deploy]
_ERASURE = {
    "agent_erase_devices_iterations": "shred_random_overwrite_iterations",
    "agent_erase_devices_zeroize": "shred_final_overwrite_with_zeros",
    "agent_continue_if_ata_erase_failed": "continue_if_disk_secure_erase_fails",
    "agent_enable_nvme_secure_erase": "enable_nvme_secure_erase",
    "agent_enable_ata_secure_erase": "enable_ata_secure_erase",
    "disk_erasure_concurrency": "disk_erasure_concurrency",
    "agent_erase_skip_read_only": "erase_skip_read_only",
}
