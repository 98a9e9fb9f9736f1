"""The operator's commands: which there are, and under which name."""

from collections.abc import Callable, Mapping

import typer

from app.cli import completion, inquiries, node_fields, nodes, work
from app.cli.commands import add

NODE: Mapping[str, Callable[..., None]] = {
    "list": nodes.list_nodes,
    "show": nodes.show,
    "create": nodes.create,
    "set": nodes.set_fields,
    "unset": nodes.unset_fields,
    "delete": nodes.delete,
    "maintenance": nodes.maintenance,
    "power": work.power,
    "provision-state": work.provision_state,
    "abort": work.abort,
    "clean-steps": work.clean_steps,
    "deploy-steps": work.deploy_steps,
    "service-steps": work.service_steps,
    "why": inquiries.why,
    "operations": inquiries.operations,
    "operation": inquiries.operation,
    "history": inquiries.history,
}
#: Commands of nodes with options from the table of fields.
OPTIONS = {
    "create": node_fields.CREATING, "set": node_fields.SETTING, "unset": node_fields.UNSETTING,
}  # fmt: skip
CONDUCTOR: Mapping[str, Callable[..., None]] = {"list": inquiries.list_conductors}


def join(app: typer.Typer, conductor: typer.Typer) -> None:
    """Give an application the operator's commands; `conductor` is a group that it has."""
    node = typer.Typer(help="Machines, and what is done to them.", no_args_is_help=True)
    for name, function in NODE.items():
        add(node, name, function, OPTIONS.get(name, ()))
    for name, function in CONDUCTOR.items():
        add(conductor, name, function)
    app.add_typer(node, name="node")
    app.command("completion")(completion.completion)
    completion.answer_shells()
