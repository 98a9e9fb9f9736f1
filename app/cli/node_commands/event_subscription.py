"""Command that shows whether the BMC of a node sends its events."""

from app.cli.commands import Node
from app.cli.rest import Api
from app.cli.terminal.output import Output

FIELDS = ("state", "subscribed_at", "tested_at", "received_at", "error")


def event_subscription(api: Api, output: Output, node: Node) -> None:
    """Show whether a node's BMC sends its events to the service, and since when."""
    output.item(api.get("nodes", node, "event_subscription"), FIELDS)
