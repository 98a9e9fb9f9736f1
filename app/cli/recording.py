"""Command that records a BMC."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from app.cli.commands import Node
from app.cli.operation_progress import ENDED, LOOK
from app.cli.rest import Api
from app.cli.terminal.errors import Failure, NotYet, Usage
from app.cli.terminal.output import Document, Output
from drivers.core.recording.bundle import Answer, Exchange, Recording, of_exchanges
from drivers.core.recording.crawl import Limits, crawl
from drivers.core.recording.pseudonyms import Pseudonyms

REVIEW = ("kind", "original", "replacement", "places")


def record(
    api: Api,
    output: Output,
    node: Node,
    *,
    operation: Annotated[
        bool,
        typer.Option(
            "--operation",
            help="Record what the next operation, or the present one, exchanges with the BMC",
        ),
    ] = False,
    file: Annotated[
        Path | None, typer.Option(help="Path of the recording; default: NODE-bmc.json")
    ] = None,
    replace: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A further text to replace, several times"),
    ] = None,
    documents: Annotated[int, typer.Option(min=1, help="Most documents")] = 3000,
    megabytes: Annotated[int, typer.Option(min=1, help="Most megabytes of documents")] = 32,
    minutes: Annotated[int, typer.Option(min=1, help="Most minutes")] = 30,
) -> None:
    """
    Record the documents of a BMC, with replacements for the values that identify the machine.

    The BMC gets GET requests only. With --operation it gets none: its conversation with an
    operation is recorded, which you start elsewhere; --minutes is the longest wait for its end.
    Review the list of replacements before you pass the file on.
    """
    path = file or Path(f"{re.sub('[^A-Za-z0-9._-]', '_', node)}-bmc.json")
    if path.exists():
        raise Usage(f"--file: {path} exists")
    facts = api.get("nodes", node, fields="name,driver_info")
    if operation:
        recording = _of_operation(api, node, facts, minutes)
    else:
        recording = _of_documents(
            api, node, facts, Limits(documents, megabytes << 20, minutes * 60)
        )
    pseudonyms = Pseudonyms()
    recording = pseudonyms.applied(recording, _identity(facts, replace or ()))
    try:
        with path.open("x") as file_object:
            file_object.write(recording.dump())
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from error
    output.items([row._asdict() for row in pseudonyms.review()], REVIEW)
    exchanges = f"{len(recording.exchanges)} exchanges, " if operation else ""
    typer.echo(
        f"{path}: {exchanges}{len(recording.answers)} documents, {len(recording.unread)} left out."
        " Review the list above, and the file, before you pass it on.",
        err=True,
    )


def _of_documents(api: Api, node: str, facts: Document, bounds: Limits) -> Recording:
    """Read the documents of the BMC."""

    def ask(paths: Sequence[str]) -> list[Answer]:
        answer = api.request("POST", "nodes", node, "bmc", "documents", body={"paths": list(paths)})
        return [Answer(**document) for document in answer.json()["answers"]]

    info, origin = facts["driver_info"], _origin(facts["driver_info"])
    recording = Recording([])
    for recording in crawl(ask, origin, info.get("redfish_system_id"), bounds):
        typer.echo(f"{len(recording.answers)} documents", err=True)
    return recording


def _of_operation(api: Api, node: str, facts: Document, minutes: int) -> Recording:
    """
    Record the present operation of a node, or else its next one, to its end.

    Raises NotYet: none has ended within the minutes. Raises Failure: it exchanged nothing.
    """
    patient = api.another(patient=True)
    earlier = {uuid for uuid, state in _operations(patient, node) if state in ENDED}
    with _recording(api, node, minutes):
        typer.echo("Recording: start the operation, unless it runs. Ctrl-C ends it.", err=True)
        end = time.monotonic() + minutes * 60
        while True:
            states = {
                uuid: state for uuid, state in _operations(patient, node) if uuid not in earlier
            }
            ended = [uuid for uuid, state in states.items() if state in ENDED]
            if ended:
                break
            if time.monotonic() >= end:
                raise NotYet(f"no operation of {node} has ended within {minutes} minutes")
            time.sleep(LOOK)
        answer = patient.get("nodes", node, "bmc", "recording")
    entries = [entry for entry in answer["exchanges"] if entry.pop("operation") == ended[-1]]
    if not entries:
        raise Failure(
            f"operation {ended[-1]} has exchanged nothing with the BMC of {node} while it was"
            " recorded"
        )
    if answer["left_out"]:
        typer.echo(f"{answer['left_out']} exchanges or bodies are above the limits", err=True)
    exchanges = [_exchange(entry) for entry in entries]
    return of_exchanges(exchanges, facts["driver_info"].get("redfish_system_id"))


def _exchange(entry: Document) -> Exchange:
    step, seconds, method, request_body = (
        entry.pop(name) for name in ("step", "seconds", "method", "request_body")
    )
    return Exchange(step, seconds, method, request_body, Answer(**entry))


def _operations(api: Api, node: str) -> list[tuple[str, str]]:
    """Return UUID and state of the node's operations, the newest first."""
    listed = api.get("nodes", node, "operations")["operations"]
    return [(operation["uuid"], operation["state"]) for operation in listed]


@contextmanager
def _recording(api: Api, node: str, minutes: int) -> Iterator[None]:
    """Record a node's operations inside; the service ends it, too, after the minutes."""
    api.request("PUT", "nodes", node, "bmc", "recording", body={"minutes": min(minutes, 24 * 60)})
    try:
        yield
    finally:
        with suppress(Failure):
            api.request("DELETE", "nodes", node, "bmc", "recording")


def _identity(facts: Document, texts: Sequence[str]) -> dict[str, str]:
    """Return values of the node that identify it, with their kinds."""
    values = {
        _origin(facts["driver_info"]): "bmc",
        str(facts["driver_info"].get("redfish_username") or ""): "user",
        str(facts["name"] or ""): "host",
        **dict.fromkeys(texts, "other"),
    }
    return {value: kind for value, kind in values.items() if value}


def _origin(info: Document) -> str:
    """Return scheme, host and port of the BMC in a node's driver_info."""
    address = str(info.get("redfish_address") or "")
    parts = urlsplit(address if "://" in address else f"https://{address}")
    return f"{parts.scheme}://{parts.netloc}"
