"""
Management requests: slow changes of a machine, each run as an operation.

The node stays in its provision state; a failure is recorded in its `last_error`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from app.cluster.conductors import require_served
from app.engine import dispatch
from app.errors import Conflict, Invalid, NotFound, Unavailable
from app.hardware import targets
from app.identity.caller import Caller
from app.inventory import holds, nodes
from app.lifecycle.hold_kinds import Effect
from app.lifecycle.provision_states import MACHINE, Kind, State
from app.models import Fault, Node, OperationKind
from app.planning import planning
from drivers.core import passthru
from drivers.core.driver import interfaces_of
from drivers.core.errors import HardwareError, NotSupported
from drivers.core.passthru import Passthru
from drivers.core.target import Target

BOOT_MODES = ("uefi", "bios")
DEVICE_TYPES = ("cdrom", "disk", "floppy")


def request_boot_mode(session: Session, node: Node, mode: str, caller: Caller) -> None:
    """
    Change the machine's boot mode.

    Raises Invalid, Conflict, NodeLocked, Unavailable.
    """
    _not_in_transition(node)
    _validated(session, node, "management", "set_boot_mode")
    call = ("management", "change_boot_mode")
    _begin(session, node, OperationKind.BOOT_MODE, call, {"mode": mode}, caller)


def request_secure_boot(session: Session, node: Node, state: bool, caller: Caller) -> None:
    """
    Switch secure boot on or off.

    Raises Invalid, Conflict, NodeLocked, Unavailable.
    """
    _not_in_transition(node)
    _validated(session, node, "management", "set_secure_boot")
    call = ("management", "change_secure_boot")
    _begin(session, node, OperationKind.SECURE_BOOT, call, {"state": state}, caller)


def attach_virtual_media(
    session: Session, node: Node, device_type: str, image_url: str, caller: Caller
) -> None:
    """
    Attach an image as virtual media.

    If the driver lacks virtual media, the operation fails, as it does if the BMC lacks them.

    Raises Invalid, NodeLocked, Unavailable.
    """
    _check_media(session, node)
    arguments = {"device_type": device_type, "image_url": image_url}
    call = ("management", "attach_virtual_media")
    _begin(session, node, OperationKind.VIRTUAL_MEDIA, call, arguments, caller)


def detach_virtual_media(
    session: Session, node: Node, device_types: Sequence[str], caller: Caller
) -> None:
    """
    Detach the virtual media of these device types.

    Raises Invalid, NodeLocked, Unavailable.
    """
    _check_media(session, node)
    arguments = {"device_types": list(device_types)}
    call = ("management", "detach_virtual_media")
    _begin(session, node, OperationKind.VIRTUAL_MEDIA, call, arguments, caller)


def request_console(session: Session, node: Node, enabled: bool, caller: Caller) -> None:
    """
    Start or stop the console, unless it is in that state already.

    Raises Invalid, NodeLocked, Unavailable.
    """
    method = "start_console" if enabled else "stop_console"
    _validated(session, node, "console", method)
    if node.console_enabled != enabled:
        _begin(session, node, OperationKind.CONSOLE, ("console", method), {}, caller)


def restore_console(session: Session, node: Node, caller: Caller) -> None:
    """Start the console of a node on its present conductor; the node is not reserved."""
    rows = planning.method_call("console", "restore_console", {})
    dispatch.start(session, node, OperationKind.CONSOLE, rows, {}, caller)


def set_target_raid_config(session: Session, node: Node, config: Mapping[str, object]) -> None:
    """
    Set the wanted RAID configuration of the machine; an empty one removes it.

    Raises Invalid, NodeLocked.
    Raises NotFound: the driver does not support RAID.
    """
    target = targets.of_node(session, node)
    raid = interfaces_of(target).raid
    if config:
        try:
            raid.validate(target)
            raid.validate_raid_config(target, config)
        except NotSupported as error:
            raise NotFound("RAID of driver", node.driver) from error
        except HardwareError as error:
            raise Invalid(str(error)) from error
    nodes.check_unlocked(node)
    node.target_raid_config = dict(config)
    nodes.touch(node)


def vendor_functions(session: Session, node: Node) -> Mapping[str, Passthru]:
    """Map names to the functions of the node's vendor interface."""
    return passthru.functions(interfaces_of(targets.of_node(session, node)).vendor)


def vendor_function(
    session: Session, node: Node, name: str, http_method: str, arguments: Mapping[str, Any]
) -> Passthru:
    """
    Return a vendor function after checking the HTTP method and the arguments of a call.

    Raises Invalid.
    """
    interface = interfaces_of(_validated(session, node, "vendor")).vendor
    functions = passthru.functions(interface)
    function = functions.get(name)
    if function is None:
        raise Invalid(
            f"Vendor interface {interface.name} has no function {name!r};"
            f" it has {', '.join(functions) or 'none'}."
        )
    if http_method not in function.http_methods:
        raise Invalid(
            f"Vendor function {name} is called by {', '.join(function.http_methods)},"
            f" not by {http_method}."
        )
    try:
        passthru.check_arguments(interface, name, arguments)
    except HardwareError as error:
        raise Invalid(str(error)) from error
    return function


def request_vendor_call(
    session: Session, node: Node, name: str, arguments: Mapping[str, Any], caller: Caller
) -> None:
    """
    Call an asynchronous vendor function.

    Raises Invalid, NodeLocked, Unavailable.
    """
    call_arguments = {"function": name, "arguments": dict(arguments)}
    _begin(session, node, OperationKind.VENDOR, ("vendor", "call_as_step"), call_arguments, caller)


def _begin(  # noqa: PLR0917 - columns of an operation
    session: Session,
    node: Node,
    kind: OperationKind,
    call: tuple[str, str],
    arguments: Mapping[str, Any],
    caller: Caller,
) -> None:
    """Raises NodeLocked, NodeHeld, Unavailable."""
    nodes.check_unlocked(node)
    holds.check(session, node, Effect.MACHINE)
    require_served(session, node)
    node.last_error = None
    rows = planning.method_call(*call, arguments)
    dispatch.start(session, node, kind, rows, arguments, caller)


def _validated(session: Session, node: Node, kind: str, method: str | None = None) -> Target:
    """
    Validate an interface of the node and return the node's target.

    method: a method that the interface must implement, if any.

    Raises Invalid.
    """
    try:
        target = targets.of_node(session, node)
        driver = interfaces_of(target)
        interface = driver.by_kind[kind]
        driver.validate(kind, target)
        if method is not None and not interface.has(method):
            raise NotSupported(f"{kind} interface {interface.name} has no {method}")
    except HardwareError as error:
        raise Invalid(str(error)) from error
    return target


def _not_in_transition(node: Node) -> None:
    if MACHINE[State(node.provision_state)].kind in (Kind.BUSY, Kind.WAIT, Kind.HOLD):
        raise Conflict(
            f"Node {node.uuid} cannot be changed while a state transition is in progress: it is in"
            f' state "{node.provision_state}".'
        )


def _check_media(session: Session, node: Node) -> None:
    _validated(session, node, "management")
    if node.fault == Fault.POWER_FAILURE:
        raise Unavailable(f"The BMC of node {node.uuid} does not answer: fault {node.fault!r}.")
