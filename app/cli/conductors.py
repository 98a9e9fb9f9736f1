"""Commands for conductors: list them, drain one, and give it work again."""

import time
from typing import Annotated

import typer

from app.cli import bulk
from app.cli.commands import Yes
from app.cli.node_commands.verbs import Wait
from app.cli.rest import Api
from app.cli.terminal.errors import Failure, NotYet
from app.cli.terminal.output import Document, Output
from app.text.sentences import counted

COLUMNS = (
    "hostname", "conductor_group", "alive", "drained_at", "drain_reason", "drivers", "updated_at",
)  # fmt: skip
#: Columns of the table of an undrained service.
USUAL = ("hostname", "conductor_group", "alive", "drivers", "updated_at")
#: Seconds between two looks at a conductor that drains.
LOOK = 1.0

ConductorArgument = Annotated[str, typer.Argument(metavar="NAME", help="Its name")]


def list_conductors(api: Api, output: Output) -> None:
    """List the conductors, and whether they are alive or drained."""
    items = list(api.every("conductors", fields=",".join(COLUMNS)))
    is_usual = not any(item["drained_at"] for item in items)
    output.items(items, COLUMNS, USUAL if is_usual else COLUMNS)


def drain(
    api: Api,
    output: Output,
    name: ConductorArgument,
    *,
    reason: Annotated[str | None, typer.Option(help="The reason, for other operators")] = None,
    wait: Wait = None,
    yes: Yes = False,
) -> None:
    """
    Drain a conductor: it completes its steps, and gets no new work, also after a restart.

    Other conductors take over the work that it has not begun. `conductor undrain` ends that.
    """
    service = _service(api)
    alone = sum(share["nodes"] for share in service["ring"] if share["conductors"] == [name])
    if alone and not yes:
        bulk.confirm(
            f"drain {name}: {counted(alone, 'node')} without another conductor must wait until it"
            " is undrained"
        )
    api.request("PUT", "conductors", name, "drain", body={"reason": reason})
    if wait is None:
        output.result({"conductor": name, "drained": True}, f"{name}: drains")
        return
    end = time.monotonic() + wait
    patient_api = api.another(patient=True)
    while (conductor := _conductor(_service(patient_api), name))["state"] != "drained":
        if conductor["state"] in ("lost", "stopped"):
            raise Failure(f"{name} is {conductor['state']}: others take over its work")
        if time.monotonic() > end:
            running = conductor["holds"]["running"]
            raise NotYet(f"{name} is {conductor['state']}, with {running} running steps")
        time.sleep(LOOK)
    output.result(conductor, f"{name}: drained, no step runs on it")


def undrain(api: Api, output: Output, name: ConductorArgument) -> None:
    """Give new work to a drained conductor again."""
    api.request("DELETE", "conductors", name, "drain")
    output.result({"conductor": name, "drained": False}, f"{name}: gets new work")


def _service(api: Api) -> Document:
    document: Document = api.get("service")
    return document


def _conductor(service: Document, name: str) -> Document:
    """Return a conductor of the service. Raises Failure: there is none of this name."""
    for conductor in service["conductors"]:
        if conductor["hostname"] == name:
            return dict(conductor)
    raise Failure(f"there is no conductor {name} any more")
