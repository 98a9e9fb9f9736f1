"""Command that records a BMC."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from app.cli.commands import Node
from app.cli.failures import Failure, Usage
from app.cli.output import Document, Output
from app.cli.rest import Api
from drivers.recording.bundle import Answer, Recording
from drivers.recording.crawl import Limits, crawl
from drivers.recording.pseudonyms import Pseudonyms

REVIEW = ("kind", "original", "replacement", "places")


def record(
    api: Api,
    output: Output,
    node: Node,
    *,
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

    The BMC gets GET requests only. Review the list of replacements before you pass the file on.
    """
    path = file or Path(f"{re.sub('[^A-Za-z0-9._-]', '_', node)}-bmc.json")
    if path.exists():
        raise Usage(f"--file: {path} exists")
    facts = api.get("nodes", node, fields="name,driver_info")

    def ask(paths: Sequence[str]) -> list[Answer]:
        answer = api.request("POST", "nodes", node, "bmc", "documents", body={"paths": list(paths)})
        return [Answer(**document) for document in answer.json()["answers"]]

    info, origin = facts["driver_info"], _origin(facts["driver_info"])
    crawl_limits = Limits(documents, megabytes << 20, minutes * 60)
    recording = Recording([])
    for recording in crawl(ask, origin, info.get("redfish_system_id"), crawl_limits):
        typer.echo(f"{len(recording.answers)} documents", err=True)
    pseudonyms = Pseudonyms()
    recording = pseudonyms.applied(recording, _identity(facts, replace or ()))
    try:
        with path.open("x") as file_object:
            file_object.write(recording.dump())
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from error
    output.items([row._asdict() for row in pseudonyms.review()], REVIEW)
    typer.echo(
        f"{path}: {len(recording.answers)} documents, {len(recording.unread)} left out."
        " Review the list above, and the file, before you pass it on.",
        err=True,
    )


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
