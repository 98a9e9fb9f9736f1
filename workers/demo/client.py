"""The demo as a client of the API: what it asks for, and a node's line as it reads it back."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from app.models import ENDED, StepState
from workers.demo.stage import DemoError

HEADERS = {"X-OpenStack-Ironic-API-Version": "1.115"}
#: A process of the API may be killed too: who reads then asks again.
AGAIN = Retry(6, backoff_factor=0.2, allowed_methods={"GET"})
TIMEOUT = 30

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """
    A node and the operation that it is in, or was in last.

    step: the label of the step under way, "" for none. done, total: its steps. operation: its
    state, "" before the first. claimed_by: the incarnation that claimed a step last.
    """

    uuid: str
    name: str
    provision_state: str
    power_state: str
    conductor: str
    last_error: str
    maintenance: bool
    reserved: bool
    operation: str = ""
    step: str = ""
    done: int = 0
    total: int = 0
    claimed_by: str = ""

    @property
    def active(self) -> bool:
        """Whether its operation goes on."""
        return bool(self.operation) and self.operation not in ENDED


class Api:
    """The REST API at `url`. Every method raises DemoError."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy, no .netrc: this is loopback
        self._session.headers.update(HEADERS)
        self._session.mount("http://", HTTPAdapter(max_retries=AGAIN))
        self._operations: dict[str, Document] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON document that is answered, None for an empty answer."""
        try:
            answer = self._session.request(method, f"{self.url}{path}", json=body, timeout=TIMEOUT)
        except requests.RequestException as error:
            raise DemoError(f"{method} {path}: {error}") from None
        if not answer.ok:
            raise DemoError(f"{method} {path}: {answer.status_code} {_reason(answer)}")
        return answer.json() if answer.content else None

    def lines(self) -> list[Line]:
        """All nodes, by name."""
        nodes = self.call("GET", "/v1/nodes/detail")["nodes"]
        return [self._line(node) for node in sorted(nodes, key=lambda node: str(node["name"]))]

    def _line(self, node: Document) -> Line:
        line = Line(
            uuid=node["uuid"],
            name=node["name"] or node["uuid"],
            provision_state=node["provision_state"],
            power_state=node["power_state"] or "",
            conductor=node["conductor"] or "",
            last_error=node["last_error"] or "",
            maintenance=node["maintenance"],
            reserved=node["reservation"] is not None,
        )
        return with_operation(line, self._operation(node["uuid"]))

    def _operation(self, node: str) -> Document | None:
        """The newest operation of a node with its steps; power changes are no story."""
        known = self._operations.get(node)
        if known is None or known["state"] in ENDED:
            listed = self.call("GET", f"/v1/nodes/{node}/operations")["operations"]
            newest = next((each["uuid"] for each in listed if each["kind"] != "power"), None)
            if newest is None or (known and known["uuid"] == newest):
                return known
        else:
            newest = known["uuid"]
        self._operations[node] = self.call("GET", f"/v1/operations/{newest}")
        return self._operations[node]


def with_operation(line: Line, operation: Document | None) -> Line:
    """A node's line with what its operation says."""
    if operation is None:
        return line
    steps: Sequence[Document] = operation["steps"]
    over = {StepState.DONE, StepState.SKIPPED}
    now = (each for each in steps if each["position"] == operation["cursor"])
    current = next(now, None) if operation["state"] not in ENDED else None
    return dataclasses.replace(
        line,
        operation=operation["state"],
        step=f"{current['interface']}.{current['step']}" if current else "",
        done=sum(each["state"] in over for each in steps),
        total=len(steps),
        claimed_by=operation["claimed_by"] or "",
    )


def _reason(answer: requests.Response) -> str:
    """What an error says, in one line."""
    try:
        fault = json.loads(answer.json()["error_message"])["faultstring"]
    except (ValueError, KeyError, TypeError):
        fault = answer.text or answer.reason
    return " ".join(str(fault).split())
