"""Commands for the failures of webhooks: list and replay."""

from typing import Annotated

import typer

from app.cli.resources import Ident
from app.cli.rest import Api
from app.cli.terminal.output import Output

FAILURE = ("created_at", "after", "last", "error")


def list_failures(api: Api, out: Output, which: Ident) -> None:
    """List the events that the receiver did not accept for too long."""
    out.items(api.get("webhooks", which, "failures")["failures"], FAILURE)


def replay(
    api: Api,
    out: Output,
    which: Ident,
    *,
    after: Annotated[
        int | None,
        typer.Option(min=0, help="The events after this number; else from the oldest failure on"),
    ] = None,
) -> None:
    """Post events again, in order."""
    body = {} if after is None else {"after": after}
    found = api.request("POST", "webhooks", which, "replay", body=body).json()
    out.result(found, f"{which}: the events after {found['position']} are posted again")
