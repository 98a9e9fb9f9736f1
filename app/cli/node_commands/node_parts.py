"""Commands for traits, VIFs, boot device, console and validation of a node."""

from typing import Annotated

import typer

from app.cli.commands import Node
from app.cli.rest import Api
from app.cli.terminal import arguments
from app.cli.terminal.output import Output

Traits = Annotated[list[str], typer.Argument(metavar="TRAIT...", help="As HW_CPU_X86_VMX")]
Vif = Annotated[
    str,
    typer.Argument(
        metavar="VIF", help="Its ID: that of a Neutron port, or a network of the service"
    ),
]


def validate(api: Api, output: Output, node: Node) -> None:
    """Validate the settings of each interface of a node."""
    results = api.get("nodes", node, "validate")
    lines = [{"interface": name, **result} for name, result in results.items()]
    output.items(lines, ("interface", "result", "reason"))


def list_traits(api: Api, output: Output, node: Node) -> None:
    """List the traits of a node."""
    traits = api.get("nodes", node, "traits")["traits"]
    output.items([{"trait": trait} for trait in traits], ("trait",))


def add_traits(api: Api, output: Output, node: Node, traits: Traits) -> None:
    """Add traits to a node."""
    for trait in traits:
        api.request("PUT", "nodes", node, "traits", trait)
    _done(output, node, f"has {', '.join(traits)}")


def remove_traits(api: Api, output: Output, node: Node, traits: Traits) -> None:
    """Remove traits of a node."""
    for trait in traits:
        api.request("DELETE", "nodes", node, "traits", trait)
    _done(output, node, f"has lost {', '.join(traits)}")


def set_traits(
    api: Api,
    output: Output,
    node: Node,
    traits: Annotated[list[str] | None, typer.Argument(metavar="[TRAIT]...")] = None,
) -> None:
    """Replace the traits of a node; without arguments remove all."""
    api.request("PUT", "nodes", node, "traits", body={"traits": traits or []})
    _done(output, node, f"has {', '.join(traits or ['no traits'])}")


def list_vifs(api: Api, output: Output, node: Node) -> None:
    """List the VIFs that are attached to a node."""
    output.items(api.get("nodes", node, "vifs")["vifs"], ("id",))


def attach_vif(
    api: Api,
    output: Output,
    node: Node,
    vif: Vif,
    *,
    port: Annotated[str | None, typer.Option(help="The UUID of a port to attach it to")] = None,
    info: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Further fields of the VIF, several times"),
    ] = None,
) -> None:
    """Attach a VIF to a node."""
    body = {
        "id": vif,
        **({"port_uuid": port} if port else {}),
        **arguments.pairs("--info", info or ()),
    }
    api.request("POST", "nodes", node, "vifs", body=body)
    _done(output, node, f"{vif} is attached")


def detach_vif(api: Api, output: Output, node: Node, vif: Vif) -> None:
    """Detach a VIF from a node."""
    api.request("DELETE", "nodes", node, "vifs", vif)
    _done(output, node, f"{vif} is detached")


def list_switch_ports(
    api: Api,
    output: Output,
    node: Node,
    network: Annotated[
        str | None, typer.Option(help="A network: show the commands that it would need instead")
    ] = None,
) -> None:
    """Compare the switch ports of a node with the last orders; the switches are read now."""
    ports = api.get("nodes", node, "switch_ports", network=network or None)["switch_ports"]
    lines = [{**port, "commands": "; ".join(port["commands"])} for port in ports]
    output.items(lines, ("switch", "port_id", "ordered", "actual", "commands"))


def restore_switch_ports(api: Api, output: Output, node: Node) -> None:
    """Give the switch ports of a node the last orders for them again."""
    restored = api.request("POST", "nodes", node, "switch_ports", "restore").json()["restored"]
    _done(output, node, "; ".join(restored) or "nothing was ordered for its switch ports")


def show_boot_device(
    api: Api,
    output: Output,
    node: Node,
    supported: Annotated[
        bool, typer.Option("--supported", help="List the supported devices")
    ] = False,
) -> None:
    """Show the boot device of a machine."""
    path = ("management", "boot_device", *(("supported",) if supported else ()))
    output.item(api.get("nodes", node, *path))


def set_boot_device(
    api: Api,
    output: Output,
    node: Node,
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="As pxe, disk, cdrom")],
    persistent: Annotated[
        bool, typer.Option("--persistent", help="For every boot, not only the next one")
    ] = False,
) -> None:
    """Set the boot device of a machine."""
    body = {"boot_device": device, "persistent": persistent}
    api.request("PUT", "nodes", node, "management", "boot_device", body=body)
    _done(output, node, f"boots from {device}{'' if persistent else ', once'}")


def show_console(api: Api, output: Output, node: Node) -> None:
    """Show the console of a node: whether it is enabled, and its address."""
    output.item(api.get("nodes", node, "states", "console"))


def enable_console(api: Api, output: Output, node: Node) -> None:
    """Enable the console of a node."""
    _switch(api, output, node, on=True)


def disable_console(api: Api, output: Output, node: Node) -> None:
    """Disable the console of a node."""
    _switch(api, output, node, on=False)


def driver_properties(
    api: Api, output: Output, driver: Annotated[str, typer.Argument(metavar="DRIVER")]
) -> None:
    """List the keys of driver_info that a driver reads."""
    properties = api.get("drivers", driver, "properties")
    lines = [{"name": name, "description": description} for name, description in properties.items()]
    output.items(lines, ("name", "description"))


def _switch(api: Api, output: Output, node: str, *, on: bool) -> None:
    api.request("PUT", "nodes", node, "states", "console", body={"enabled": on})
    _done(output, node, f"the console is {'open' if on else 'closed'}")


def _done(output: Output, node: str, text: str) -> None:
    output.result({"node": node, "done": text}, f"{node}: {text}")
