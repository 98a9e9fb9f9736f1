"""
Kept logs of agents: which a node has, and their content, from the conductor that keeps them.

The step `deploy.keep_logs` writes an archive to the host of its conductor; its result has the path.
Callers name an archive by its file name; they never give a path.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.engine import rpc
from app.errors import NotFound, Unavailable
from app.models import Node, Operation, OperationStep
from app.runtime import Runtime

#: Most logs in a list; most steps that are read for it.
MOST = 100
STEP, RESULT = "keep_logs", "logs"


@dataclass(frozen=True, slots=True)
class KeptLog:
    """An archive of an agent's logs."""

    name: str  # of the file
    operation: str  # UUID of the operation at whose end it was kept
    kind: str  # of the operation
    conductor: str  # that keeps it
    kept_at: datetime | None


def of_node(session: Session, node: Node) -> list[KeptLog]:
    """List the logs that operations of a node have kept, the newest first; files may be pruned."""
    rows = session.execute(
        select(
            Operation.uuid, Operation.kind, OperationStep.result, OperationStep.conductor,
            OperationStep.finished_at,
        )
        .join(OperationStep, OperationStep.operation_id == Operation.id)
        .where(Operation.node_id == node.id, OperationStep.name == STEP)
        .order_by(Operation.id.desc())
        .limit(MOST)
    )  # fmt: skip
    return [
        KeptLog(name, operation, kind, conductor, finished_at)
        for operation, kind, result, conductor, finished_at in rows
        if (name := _name_of(result)) and conductor
    ]


def of_operation(session: Session, node: Node, operation: str | None) -> str | None:
    """Return the name of the log that an operation, given by its UUID, has kept, if any."""
    if operation is None:
        return None
    names = (
        agent_log.name for agent_log in of_node(session, node) if agent_log.operation == operation
    )
    return next(names, None)


def content(runtime: Runtime, node: str, agent_log: KeptLog) -> tuple[int, Iterator[bytes]]:
    """
    Return the size of a log, and its content in parts, which its conductor reads.

    Raises NotFound: the file was removed. Raises Unavailable: its conductor is not alive, or does
    not answer.
    """

    def read(offset: int) -> tuple[int, bytes]:
        try:
            answer = rpc.call_at(
                runtime,
                agent_log.conductor,
                node,
                "read_agent_log",
                name=agent_log.name,
                offset=offset,
            )
        except rpc.NoSuchConductor:
            raise Unavailable(
                f"The log is kept by conductor {agent_log.conductor}, which is not alive: start it,"
                f" or read {agent_log.name} in the directory of agent logs of its host"
                " ([agent]deploy_logs_local_path)."
            ) from None
        return answer["size"], base64.b64decode(answer["content"])

    size, first_part = read(0)

    def parts() -> Iterator[bytes]:
        part, offset = first_part, 0
        while part:
            yield part
            offset += len(part)
            part = read(offset)[1] if offset < size else b""

    return size, parts()


def path_of(node: str, name: str) -> str:
    """Return the path of a log in the API. node: UUID."""
    return f"/v1/nodes/{node}/agent-logs/{name}"


def find(session: Session, node: Node, name: str) -> KeptLog:
    """Return a log by the name of its file. Raises NotFound."""
    for agent_log in of_node(session, node):
        if agent_log.name == name:
            return agent_log
    raise NotFound("agent log", name)


def _name_of(result: object) -> str | None:
    """Return the file name in the result of a step, or None if it has kept no file."""
    path = result.get(RESULT) if isinstance(result, dict) else None
    return PurePath(path).name or None if isinstance(path, str) else None
