"""Commands for traits, VIFs, boot device, console and validation of a node."""

from typing import Annotated

import typer

from app.cli.commands import Node
from app.cli.rest import Api
from app.cli.terminal import arguments
from app.cli.terminal.output import Output

Traits = Annotated[list[str], typer.Argument(metavar="TRAIT...", help="As HW_CPU_X86_VMX")]
Vif = Annotated[str, typer.Argument(metavar="VIF", help="Its ID: that of a Neutron port")]


def validate(api: Api, out: Output, node: Node) -> None:
    """Validate the settings of each interface of a node."""
    found = api.get("nodes", node, "validate")
    lines = [{"interface": name, **said} for name, said in found.items()]
    out.items(lines, ("interface", "result", "reason"))


def list_traits(api: Api, out: Output, node: Node) -> None:
    """List the traits of a node."""
    found = api.get("nodes", node, "traits")["traits"]
    out.items([{"trait": each} for each in found], ("trait",))


def add_traits(api: Api, out: Output, node: Node, traits: Traits) -> None:
    """Add traits to a node."""
    for each in traits:
        api.request("PUT", "nodes", node, "traits", each)
    _done(out, node, f"has {', '.join(traits)}")


def remove_traits(api: Api, out: Output, node: Node, traits: Traits) -> None:
    """Remove traits of a node."""
    for each in traits:
        api.request("DELETE", "nodes", node, "traits", each)
    _done(out, node, f"has lost {', '.join(traits)}")


def set_traits(
    api: Api,
    out: Output,
    node: Node,
    traits: Annotated[list[str] | None, typer.Argument(metavar="[TRAIT]...")] = None,
) -> None:
    """Replace the traits of a node; without arguments remove all."""
    api.request("PUT", "nodes", node, "traits", body={"traits": traits or []})
    _done(out, node, f"has {', '.join(traits or ['no traits'])}")


def list_vifs(api: Api, out: Output, node: Node) -> None:
    """List the VIFs that are attached to a node."""
    out.items(api.get("nodes", node, "vifs")["vifs"], ("id",))


def attach_vif(
    api: Api,
    out: Output,
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
    _done(out, node, f"{vif} is attached")


def detach_vif(api: Api, out: Output, node: Node, vif: Vif) -> None:
    """Detach a VIF from a node."""
    api.request("DELETE", "nodes", node, "vifs", vif)
    _done(out, node, f"{vif} is detached")


def show_boot_device(
    api: Api,
    out: Output,
    node: Node,
    supported: Annotated[
        bool, typer.Option("--supported", help="List the supported devices")
    ] = False,
) -> None:
    """Show the boot device of a machine."""
    below = ("management", "boot_device", *(("supported",) if supported else ()))
    out.item(api.get("nodes", node, *below))


def set_boot_device(
    api: Api,
    out: Output,
    node: Node,
    device: Annotated[str, typer.Argument(metavar="DEVICE", help="As pxe, disk, cdrom")],
    persistent: Annotated[
        bool, typer.Option("--persistent", help="For every boot, not only the next one")
    ] = False,
) -> None:
    """Set the boot device of a machine."""
    body = {"boot_device": device, "persistent": persistent}
    api.request("PUT", "nodes", node, "management", "boot_device", body=body)
    _done(out, node, f"boots from {device}{'' if persistent else ', once'}")


def show_console(api: Api, out: Output, node: Node) -> None:
    """Show the console of a node: whether it is enabled, and its address."""
    out.item(api.get("nodes", node, "states", "console"))


def enable_console(api: Api, out: Output, node: Node) -> None:
    """Enable the console of a node."""
    _switch(api, out, node, on=True)


def disable_console(api: Api, out: Output, node: Node) -> None:
    """Disable the console of a node."""
    _switch(api, out, node, on=False)


def driver_properties(
    api: Api, out: Output, driver: Annotated[str, typer.Argument(metavar="DRIVER")]
) -> None:
    """List the keys of driver_info that a driver reads."""
    found = api.get("drivers", driver, "properties")
    lines = [{"name": name, "description": said} for name, said in found.items()]
    out.items(lines, ("name", "description"))


def _switch(api: Api, out: Output, node: str, *, on: bool) -> None:
    api.request("PUT", "nodes", node, "states", "console", body={"enabled": on})
    _done(out, node, f"the console is {'open' if on else 'closed'}")


def _done(out: Output, node: str, text: str) -> None:
    out.result({"node": node, "done": text}, f"{node}: {text}")
