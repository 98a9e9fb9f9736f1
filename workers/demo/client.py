"""API client of the demo, and the state of a node as the demo displays it."""

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
#: Reads are retried, as a request fails when its API process is killed.
RETRY = Retry(6, backoff_factor=0.2, allowed_methods={"GET"})
TIMEOUT = 30

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """A node and its active or last operation."""

    uuid: str
    name: str
    provision_state: str
    power_state: str
    conductor: str
    last_error: str
    maintenance: bool
    reserved: bool
    operation: str = ""  # state of the operation; "": none yet
    step: str = ""  # label of the current step; "": none
    done_steps: int = 0  # steps that are done
    total: int = 0  # all steps
    claimed_by: str = ""  # incarnation that claimed a step last

    @property
    def active(self) -> bool:
        """Whether its operation has not ended."""
        return bool(self.operation) and self.operation not in ENDED


class Api:
    """The REST API at `url`. Every method raises DemoError."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False  # loopback needs no proxy and no .netrc
        self._session.headers.update(HEADERS)
        self._session.mount("http://", HTTPAdapter(max_retries=RETRY))
        self._operations: dict[str, Document] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Send a request; return the JSON of the response, None if it is empty."""
        try:
            answer = self._session.request(method, f"{self.url}{path}", json=body, timeout=TIMEOUT)
        except requests.RequestException as error:
            raise DemoError(f"{method} {path}: {error}") from None
        if not answer.ok:
            raise DemoError(f"{method} {path}: {answer.status_code} {_reason(answer)}")
        return answer.json() if answer.content else None

    def lines(self) -> list[Line]:
        """Return all nodes, ordered by name."""
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
        """Return the newest operation of a node, with steps; power operations are left out."""
        operation = self._operations.get(node)
        if operation is None or operation["state"] in ENDED:
            operations = self.call("GET", f"/v1/nodes/{node}/operations")["operations"]
            operation_uuid = next(
                (candidate["uuid"] for candidate in operations if candidate["kind"] != "power"),
                None,
            )
            if operation_uuid is None or (operation and operation["uuid"] == operation_uuid):
                return operation
        else:
            operation_uuid = operation["uuid"]
        self._operations[node] = self.call("GET", f"/v1/operations/{operation_uuid}")
        return self._operations[node]


def with_operation(line: Line, operation: Document | None) -> Line:
    """Return a node's line with the fields of its operation."""
    if operation is None:
        return line
    steps: Sequence[Document] = operation["steps"]
    finished = {StepState.DONE, StepState.SKIPPED}
    at_cursor = (step for step in steps if step["position"] == operation["cursor"])
    current_step = next(at_cursor, None) if operation["state"] not in ENDED else None
    return dataclasses.replace(
        line,
        operation=operation["state"],
        step=f"{current_step['interface']}.{current_step['step']}" if current_step else "",
        done_steps=sum(step["state"] in finished for step in steps),
        total=len(steps),
        claimed_by=operation["claimed_by"] or "",
    )


def _reason(answer: requests.Response) -> str:
    """Return the message of an error response, in one line."""
    try:
        fault = json.loads(answer.json()["error_message"])["faultstring"]
    except (ValueError, KeyError, TypeError):
        fault = answer.text or answer.reason
    return " ".join(str(fault).split())
