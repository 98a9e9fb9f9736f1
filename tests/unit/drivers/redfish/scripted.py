"""A BMC in this process whose answers tests script; it counts the orders that it receives."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import requests

from drivers.core.errors import HardwareError, Unconfirmed
from drivers.core.steps import Wait
from drivers.redfish.transport.client import Connection
from drivers.simulator.redfish_bmc.documents import ROOT
from tests.unit.drivers.crashes import attempt_of, crashed
from tests.unit.drivers.documents import LocalBmc

TASK = f"{ROOT}/TaskService/Tasks/JID_1"
MONITOR = f"{ROOT}/TaskService/TaskMonitors/JID_1"
UPDATE = f"{ROOT}/UpdateService/Actions/UpdateService.SimpleUpdate"
#: Answers in place of a (status, headers, body): the order arrives and its answer is lost.
LOST = "lost"


class Died(BaseException):
    """The conductor dies."""


@dataclass
class ScriptedBmc(LocalBmc):
    """
    scripts: (method, path) -> answers in turn, the last for good; an answer is (status, headers,
    body) or LOST, or a function that returns one of these.
    """

    scripts: dict = field(default_factory=dict)
    is_lost: bool = False  # the answer to the last order was lost
    orders: list = field(default_factory=list)  # (method, path, body) of each order

    def answer(self, method, path, headers, body=b""):
        template = path.rstrip("/").replace(self.machine.uuid, "{id}")
        if method != "GET":
            self.orders.append((method, template, json.loads(body) if body else None))
        if method == "POST" and template.endswith("ComputerSystem.Reset"):
            return self._reset(json.loads(body)["ResetType"])
        turns = self.scripts.get((method, template))
        if not turns:
            return super().answer(method, path, headers, body)
        turn = turns.pop(0) if len(turns) > 1 else turns[0]
        turn = turn() if callable(turn) else turn
        if turn is None:
            return super().answer(method, path, headers, body)
        if turn == LOST:
            self.lose()
        status, answer_headers, document = turn
        content = b"" if document is None else json.dumps(document).encode()
        return status, content if not isinstance(document, bytes) else document, answer_headers

    def install(self, monkeypatch):
        order = Connection.order

        def confirmed(connection, *request, **options):
            self.is_lost = False
            try:
                return order(connection, *request, **options)
            except HardwareError:
                if self.is_lost:
                    raise Unconfirmed("BMC did not answer (the connection was closed)") from None
                raise

        monkeypatch.setattr(Connection, "order", confirmed)
        # sushy pauses before it repeats a read
        monkeypatch.setattr("sushy.connector.time", SimpleNamespace(sleep=lambda _seconds: None))
        return super().install(monkeypatch)

    def lose(self):
        """Lose the answer of the order that has arrived."""
        self.is_lost = True
        raise requests.ConnectionError("the connection was closed")

    def _reset(self, kind):
        machine = self.machine
        machine.power = "Off" if kind == "ForceOff" else "On"
        if machine.power == "On":
            machine.bios.update(machine.bios_pending)
            machine.bios_pending = {}
            while machine.at_start:
                machine.at_start.pop(0)()
        return 204, b"", {}

    def sent(self, word: str) -> list:
        """Return the bodies of the orders to paths with this word."""
        return [body for _, path, body in self.orders if word in path]


def error(status, message="refused", name="Base.1.8.GeneralError", **headers):
    messages = [{"MessageId": name, "Message": message}]
    return (
        status,
        headers,
        {"error": {"code": name, "message": message, "@Message.ExtendedInfo": messages}},
    )


def task(state="Running", status="OK", *texts, path=TASK, **fields):
    messages = [{"MessageId": "x.1.0.y", "Message": text} for text in texts]
    document = {
        "@odata.id": path, "Id": "JID_1", "Name": "T", "TaskState": state, "TaskStatus": status,
        "Messages": messages, **fields,
    }  # fmt: skip
    return 200, {}, {name: value for name, value in document.items() if value is not ...}


MISSING = error(404, "there is no such resource")
ACCEPTED = (202, {"Location": TASK}, None)


def run(
    node,
    kind: str,
    step: str,
    *,
    polls: int = 2000,
    crash: Callable[[int], bool] = lambda call: False,
    waits: list | None = None,
    **args,
):
    """
    Call a step until it ends; return (outcome or error, reports).

    crash: receives the number of a call, and says whether its outcome is lost in a crash.
    waits: gets each `Wait`.
    """

    def call_step(node):
        return node.driver.by_kind[kind].run(node, step, args)

    return finish(node, call_step, polls, crash, waits)


def finish(node, part, polls=2000, crash=lambda call: False, waits=None):
    """Call a part of a step until it ends, as `run` does."""
    for call in range(polls):
        node = attempt_of(node)
        try:
            outcome = part(node)
        except Died:
            node = crashed(node)
            continue
        except HardwareError as raised:
            return raised, node.reports
        if crash(call):
            node = crashed(node)
            continue
        if not isinstance(outcome, Wait):
            return outcome, node.reports
        if waits is not None:
            waits.append(outcome)
        node = replace(node, progress=json.loads(json.dumps(outcome.progress)))
    return outcome, node.reports
