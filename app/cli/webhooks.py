"""Commands for the failures of webhooks: list and replay."""

from typing import Annotated

import typer

from app.cli.resources import Ident
from app.cli.rest import Api
from app.cli.terminal import times
from app.cli.terminal.output import Output
from app.cli.terminal.times import Since

FAILURE = ("created_at", "after", "last", "error")


def list_failures(api: Api, output: Output, ident: Ident, since: Since = None) -> None:
    """List the events that the receiver did not accept for too long."""
    failures = api.get("webhooks", ident, "failures")["failures"]
    output.items(times.recent(failures, since), FAILURE)


def replay(
    api: Api,
    output: Output,
    ident: Ident,
    *,
    sequence: Annotated[
        int | None,
        typer.Option(
            "--after", min=0, help="The events after this number; else from the oldest failure on"
        ),
    ] = None,
) -> None:
    """Post events again, in order."""
    body = {} if sequence is None else {"after": sequence}
    answer = api.request("POST", "webhooks", ident, "replay", body=body).json()
    output.result(answer, f"{ident}: the events after {answer['position']} are posted again")
