"""
Client of the agent's command API: its command list, and one command at a time.

Errors: Unreachable (no answer; a command was not sent), Unconfirmed (a command was sent, and its
answer was lost), InvalidDriverInfo (unreadable CA certificates), AgentBusy (another command runs),
NotSupported (unknown command), Refused (rejected command), Unexpected (malformed answer). No
message contains the agent's token.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import requests

from drivers.core.errors import (
    AgentBusy,
    NotSupported,
    Refused,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.target import Target
from drivers.net import answers, fetch, networks
from drivers.net.tls import bundle, of_node, valid_pem

CONNECT_TIMEOUT = 10.0  # seconds
#: Most bytes of the list of commands. Until the agent restarts, it has the results of all commands,
#: logs and inventories included: no step that has succeeded may fail by them.
LONGEST_LIST = 16 << 20
#: Most characters of an error text of an agent.
_LONGEST_REASON = 4000
_TLS_REMEDY = (
    "its certificate is verified by that of its heartbeats (agent_verify_ca), else by"
    " driver_info/agent_verify_ca, else by [agent]verify_ca: check them, the addresses in the"
    " certificate, and the clock of the machine"
)
_QUERY = re.compile(r"(https?://[^\s?'\"]+)\?[^\s'\"]+")


def commands(target: Target) -> list[dict[str, object]]:
    """Return the agent's commands since its start, oldest first."""
    with _observed(target, "get_commands"):
        answer = _call(target, "GET", {}, None, max_bytes=LONGEST_LIST)
        return command_list(answer)


def run(
    target: Target,
    name: str,
    params: dict[str, object],
    *,
    wait: bool,
    max_bytes: int = answers.LONGEST,
) -> dict[str, Any]:
    """
    Run `extension.command`; return its document, as in the agent's list.

    wait: the agent answers when the command has ended. These commands only read, so they are
    repeated when the connection breaks; any other command is an order, and is repeated only if the
    request was never sent. max_bytes: size limit of the answer.

    Raises Unconfirmed: an order was sent, and its answer was lost; the agent's list has it if it
    has arrived.
    """
    if not wait:
        target.before_order()
    with _observed(target, name):
        command = _call(
            target,
            "POST",
            {"wait": "true" if wait else "false"},
            {"name": name, "params": params},
            max_bytes=max_bytes,
            is_order=not wait,
        )
        if not isinstance(command, dict) or "command_status" not in command:
            raise Unexpected(f"the agent of node {target.uuid} did not report the status of {name}")
    return command


def result(target: Target, command: dict[str, object]) -> dict[str, Any]:
    """
    Return the result of a command that was run with `wait`.

    Raises Refused: the command failed.
    Raises Unexpected: the result is not an object.
    """
    name = str(command.get("command_name"))[:_LONGEST_REASON]
    if command["command_status"] != "SUCCEEDED":
        raise Refused(f"{name} failed: {failure_reason(target, command)}")
    command_result = command.get("command_result") or {}
    if not isinstance(command_result, dict):
        raise Unexpected(f"the agent of node {target.uuid} sent no object as the result of {name}")
    return command_result


def inventory(target: Target) -> dict[str, object]:
    """
    Ask the agent for the inventory of its machine.

    Raises Refused, Unexpected.
    """
    return result(target, run(target, "poll.get_hardware_info", {}, wait=True))


def failure_reason(target: Target, command: dict[str, object]) -> str:
    """Return the agent's error text of a failed command, without secrets."""
    error = command.get("command_error") or {}
    if not isinstance(error, dict):
        return scrub(target, str(error))
    return scrub(target, str(error.get("details") or error.get("message") or "no reason given"))


def scrub(target: Target, text: str) -> str:
    """Hide the agent's token, and the queries of URLs, which may carry signatures; cut the text."""
    if target.agent.token:
        text = text.replace(target.agent.token, "******")
    return _QUERY.sub(r"\1?******", text[:_LONGEST_REASON])


def command_list(document: object) -> list[dict[str, object]]:
    """
    Return the commands in the agent's answer.

    Raises Unexpected: the answer is not a list of commands.
    """
    commands = document.get("commands") if isinstance(document, dict) else None
    if not isinstance(commands, list) or not all(isinstance(command, dict) for command in commands):
        raise Unexpected("the agent's answer is not a list of commands")
    return commands


def _call(
    target: Target,
    method: str,
    query: dict[str, str],
    body: dict[str, object] | None,
    *,
    max_bytes: int = answers.LONGEST,
    is_order: bool = False,
) -> object:
    """
    Send one request; return the answer's JSON.

    A request that was not sent is repeated, and one whose connection breaks, unless it is an order.

    Raises Unreachable: no answer. Raises Unconfirmed: none to an order that was sent.
    """
    url = f"{(target.agent.url or '').rstrip('/')}/v1/commands/"
    options = target.options["agent"]
    read_timeout = float(options["command_timeout"])
    authorities = (
        valid_pem(target.agent.verify_ca) or authorities_of_node(target) or options["verify_ca"]
    )
    if not target.agent.url:
        raise Unreachable(f"the agent of node {target.uuid} has sent no heartbeat")
    name = f"the agent of node {target.uuid}"
    reach = networks.of_agents(target.options)
    adapter = answers.MachineAdapter(target.agent.url, name, reach, max_bytes)
    with bundle(authorities) as verify, answers.session(adapter) as session:
        attempts = max(1, int(options["max_command_attempts"]))
        for attempts_left in reversed(range(attempts)):
            try:
                answer = session.request(
                    method,
                    url,
                    params={**query, "agent_token": target.agent.token or ""},
                    json=body,
                    timeout=(min(CONNECT_TIMEOUT, read_timeout), read_timeout),
                    verify=verify,
                    allow_redirects=False,
                )
                return _document_of(target, answer)
            except Unreachable as error:  # the deadline of the whole answer has passed
                raise (Unconfirmed if is_order and adapter.was_sent else Unreachable)(
                    str(error)
                ) from None
            except (requests.RequestException, OSError) as error:
                is_broken = isinstance(error, requests.ConnectionError) and not is_order
                if attempts_left and (is_broken or not adapter.was_sent):
                    continue
                # `from None`: the library's message contains the URL, and with it the token
                raise (Unconfirmed if is_order and adapter.was_sent else Unreachable)(
                    f"the agent of node {target.uuid} at {target.agent.url} did not answer"
                    f" ({_cause(target, error)})"
                ) from None
    raise AssertionError("unreachable: the last attempt returns or raises")


def _cause(target: Target, error: Exception) -> str:
    """Return the system's text of a connection's error, and its remedy if it is one of TLS."""
    text = scrub(target, fetch.cause(error))
    return f"{text}; {_TLS_REMEDY}" if isinstance(error, requests.exceptions.SSLError) else text


@contextmanager
def _observed(target: Target, command: str) -> Iterator[None]:
    """Report the request inside to `observe_agent`."""
    started_at, result = time.monotonic(), "error"
    try:
        yield
        result = "answered"
    except Unreachable:
        result = "unanswered"
        raise
    finally:
        seconds = time.monotonic() - started_at
        target.observe_agent(command, target.agent.url or "", result, seconds)


def authorities_of_node(target: Target) -> object:
    """Return driver_info/agent_verify_ca; None if it is unset. Raises InvalidDriverInfo."""
    value = target.driver_info.get("agent_verify_ca")
    if value in (None, ""):
        return None
    # as a text: False is a value, too
    return str(of_node(target.options, value, "driver_info/agent_verify_ca"))


def _document_of(target: Target, answer: requests.Response) -> object:
    try:
        document = answers.parsed(f"the agent of node {target.uuid}", answer.content)
    except Unexpected:
        if answer.status_code == HTTPStatus.OK:
            raise
        document = None
    if answer.ok and document is not None:
        return document
    fault = document.get("faultstring") if isinstance(document, dict) else None
    text = scrub(target, str(fault or answer.reason))
    message = f"the agent of node {target.uuid} answered {answer.status_code}: {text}"
    if answer.status_code == 409 or "agent is busy" in text.lower():
        raise AgentBusy(message)
    if answer.status_code == 404 or "unknown command" in text.lower():
        raise NotSupported(message)
    if 400 <= answer.status_code < 500:
        raise Refused(message)
    raise Unexpected(message)
