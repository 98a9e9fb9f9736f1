"""
Talking to the agent: its command list, and one command at a time.

Errors raised: Unreachable (no answer), InvalidDriverInfo (its authorities cannot be read),
AgentBusy (it runs another command), NotSupported (it has no such command), Refused (it said
no), Unexpected (its answer makes no sense). None of their messages holds the agent's token.
"""

import re
from typing import Any

import requests
from urllib3.exceptions import NewConnectionError

from drivers.core.errors import AgentBusy, NotSupported, Refused, Unexpected, Unreachable
from drivers.core.target import Target
from drivers.tls import announced, bundle

CONNECT_TIMEOUT = 10.0
_QUERY = re.compile(r"(https?://[^\s?'\"]+)\?[^\s'\"]+")


def commands(target: Target) -> list[dict[str, Any]]:
    """The agent's commands since it started, oldest first."""
    return command_list(_call(target, "GET", {}, None, again=_never_answered))


def run(target: Target, name: str, params: dict[str, Any], *, wait: bool) -> dict[str, Any]:
    """
    Run `extension.command`; the command's document, as in the agent's list.

    wait: let the agent answer when the command has ended. Such commands are questions, asked again
        when the connection breaks; an order is sent again only if it never left.
    """
    if not wait:
        target.before_order()
    command = _call(
        target,
        "POST",
        {"wait": "true" if wait else "false"},
        {"name": name, "params": params},
        again=_never_answered if wait else _never_sent,
    )
    if not isinstance(command, dict) or "command_status" not in command:
        raise Unexpected(f"the agent of node {target.uuid} did not say what became of {name}")
    return command


def result(target: Target, command: dict[str, Any]) -> dict[str, Any]:
    """What a command that was waited for came to. Raises Refused when it failed."""
    if command["command_status"] != "SUCCEEDED":
        raise Refused(f"{command.get('command_name')} failed: {complaint(target, command)}")
    return command.get("command_result") or {}


def complaint(target: Target, command: dict[str, Any]) -> str:
    """Why a command failed, in the agent's words, without secrets."""
    error = command.get("command_error") or {}
    if not isinstance(error, dict):
        return scrub(target, str(error))
    return scrub(target, str(error.get("details") or error.get("message") or "no reason given"))


def scrub(target: Target, text: str) -> str:
    """Hide the agent's token, and the queries of URLs: they may carry signatures."""
    if target.agent.token:
        text = text.replace(target.agent.token, "******")
    return _QUERY.sub(r"\1?******", text)


def command_list(document: Any) -> list[dict[str, Any]]:
    """The commands in the agent's answer. Raises Unexpected."""
    listed = document.get("commands") if isinstance(document, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise Unexpected("the agent's list of commands is none")
    return listed


def _call(
    target: Target, method: str, query: dict[str, str], body: dict[str, Any] | None, again: Any
) -> Any:
    """One request, repeated for failures that `again` accepts; the JSON of the answer."""
    url = f"{(target.agent.url or '').rstrip('/')}/v1/commands/"
    options = target.options["agent"]
    read_timeout = float(options["command_timeout"])
    authorities = (
        announced(target.agent.verify_ca)
        or target.driver_info.get("agent_verify_ca")
        or options["verify_ca"]
    )
    if not target.agent.url:
        raise Unreachable(f"the agent of node {target.uuid} has not announced itself")
    with bundle(authorities) as verify, requests.Session() as session:
        session.trust_env = False  # an agent is never behind the proxy of our environment
        attempts = max(1, int(options["max_command_attempts"]))
        for left in reversed(range(attempts)):
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
                return _judged(target, answer)
            except (requests.RequestException, OSError) as error:
                if left and again(error):
                    continue
                # `from None`: the library's message holds the URL, and with it the token
                raise Unreachable(
                    f"the agent of node {target.uuid} at {target.agent.url} did not answer"
                    f" ({type(error).__name__})"
                ) from None
    raise AssertionError("unreachable: the last attempt returns or raises")


def _judged(target: Target, answer: requests.Response) -> Any:
    try:
        document = answer.json()
    except ValueError:
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


def _never_answered(error: Exception) -> bool:
    return isinstance(error, requests.ConnectionError)


def _never_sent(error: Exception) -> bool:
    if isinstance(error, requests.ConnectTimeout):
        return True
    cause = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(cause, NewConnectionError)
