"""Commands for quotas: how many nodes a project may lease."""

from typing import Annotated

import typer

from app.cli.commands import Limit
from app.cli.rest import Api
from app.cli.terminal.errors import Failure
from app.cli.terminal.output import Document, Output
from app.text.sentences import counted

COLUMNS = ("project", "node_limit", "leased_nodes", "uuid")
Project = Annotated[
    str, typer.Argument(metavar="PROJECT", help="Identifier, as `lessee` of its nodes")
]


def list_quotas(
    api: Api,
    output: Output,
    *,
    project: Annotated[str | None, typer.Option(help="Only that of this project")] = None,
    limit: Limit = None,
) -> None:
    """List quotas, with the nodes that each project leases."""
    fields = ",".join(output.fields or COLUMNS)
    output.items(api.every("quotas", limit=limit, fields=fields, project=project), COLUMNS)


def set_quota(
    api: Api,
    output: Output,
    project: Project,
    node_limit: Annotated[
        int, typer.Argument(metavar="NODES", min=0, help="Most nodes that it may lease")
    ],
) -> None:
    """Limit the nodes that a project may lease; it keeps those that it leases now."""
    quota = _quota_of(api, project)
    if quota is None:
        body: object = {"project": project, "node_limit": node_limit}
        answer = api.request("POST", "quotas", body=body)
    else:
        body = [{"op": "replace", "path": "/node_limit", "value": node_limit}]
        answer = api.request("PATCH", "quotas", quota["uuid"], body=body)
    document = answer.json()
    leased_nodes = document["leased_nodes"]
    output.result(
        document, f"{project}: at most {counted(node_limit, 'node')}; it leases {leased_nodes}"
    )


def unset_quota(api: Api, output: Output, project: Project) -> None:
    """Remove the limit of a project."""
    quota = _quota_of(api, project)
    if quota is None:
        raise Failure(f"there is no quota of project {project}")
    api.request("DELETE", "quotas", quota["uuid"])
    output.result({"project": project, "deleted": True}, f"{project}: without a limit")


def _quota_of(api: Api, project: str) -> Document | None:
    items = api.get("quotas", project=project)["quotas"]
    return items[0] if items else None
