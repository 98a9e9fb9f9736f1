"""Faults of virtual media and of boot settings."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import time
from typing import Any

import orjson

from drivers.simulator.redfish_bmc.documents import MANAGER, add_member, resource
from drivers.simulator.redfish_bmc.volumes import ordered_task
from drivers.simulator.refusal import Refusal
from drivers.simulator.rude.row import Exchange, Registry, changed
from drivers.simulator.server import Response, json

FAULTS = Registry()

MEDIA, BOOT = "Virtual media", "Boots are what was asked for"

COLLECTION = f"{MANAGER}/VirtualMedia"
#: A slot for CDs before the usual ones.
FIRST = f"{COLLECTION}/1"
OVERRIDE = "BootSourceOverride"


def _device(exchange: Exchange) -> str:
    """Return the name of the slot that the request is for, or ""."""
    if not exchange.path.startswith(f"{COLLECTION}/"):
        return ""
    return exchange.path.removeprefix(f"{COLLECTION}/").partition("/")[0]


def _changed_slot(
    exchange: Exchange, response: Response, change: Callable[[dict[str, Any]], object]
) -> Response:
    """Change the document of a slot."""
    changes_slot = exchange.reads and exchange.path.startswith(f"{COLLECTION}/")
    return changed(response, change) if changes_slot else response


# Slots


def _first_slot(exchange: Exchange, actions: list[str]) -> Response | None:
    """Answer a read of the extra slot, or of the collection with it; None for another request."""
    if exchange.reads and exchange.path == COLLECTION:
        return exchange.edited(lambda content: add_member(content, FIRST, at_start=True))
    if not exchange.reads or exchange.path != FIRST:
        return None
    document = resource(
        FIRST,
        "VirtualMedia.v1_4_0.VirtualMedia",
        "Slot of the remote console",
        MediaTypes=["CD", "DVD"],
        Image=None,
        Inserted=False,
        ConnectedVia="NotConnected",
        Actions={
            f"#VirtualMedia.{action}": {"target": f"{FIRST}/Actions/VirtualMedia.{action}"}
            for action in actions
        },
    )
    return json(document)


@FAULTS.fault(MEDIA)
def media_slot_without_insert(exchange: Exchange) -> Response:
    """The first slot for CDs has no InsertMedia, as of OpenBMC's console; the second one works."""
    return _first_slot(exchange, []) or exchange.go()


@FAULTS.fault(MEDIA, status=400)
def media_slot_refuses(exchange: Exchange) -> Response:
    """The first slot for CDs refuses InsertMedia with 400, as of Cisco's vKVM; the second works."""
    response = _first_slot(exchange, ["InsertMedia", "EjectMedia"])
    if response is None and exchange.path.startswith(f"{FIRST}/Actions/"):
        text = "The slot is in use by the remote console."
        return Refusal(exchange["status"], "ResourceInUse", text).response()
    return response or exchange.go()


@FAULTS.fault(MEDIA)
def media_insert_by_patch(exchange: Exchange) -> Response:
    """Slots have no actions: a PATCH of Image and Inserted inserts and ejects."""
    device, machine = _device(exchange), exchange.machine
    if device not in machine.media:
        return exchange.go()
    if exchange.request.method == "PATCH":
        body = exchange.body()
        action = "InsertMedia" if body.get("Image") else "EjectMedia"
        path = f"{COLLECTION}/{device}/Actions/VirtualMedia.{action}"
        return exchange.go(method="POST", path=path)
    if "/Actions/" in exchange.path:
        return Refusal(405, "OperationNotAllowed", "The slot has no actions.").response()
    return _changed_slot(exchange, exchange.go(), lambda content: content.pop("Actions"))


@FAULTS.fault(MEDIA)
def media_types_missing(exchange: Exchange) -> Response:
    """Slots have no MediaTypes."""
    return _changed_slot(exchange, exchange.go(), lambda content: content.pop("MediaTypes"))


# The medium that a slot shows


@FAULTS.fault(MEDIA, seconds=5.0)
def media_stale_after_eject(exchange: Exchange) -> Response:
    """For so many seconds after an eject, the slot still shows its last medium as inserted."""
    device, machine = _device(exchange), exchange.machine
    image = machine.media.get(device, "")
    response = exchange.go()
    if exchange.orders("eject") and image and exchange.occurs():
        exchange.memory[device] = (image, time() + exchange["seconds"])
    if exchange.orders("insert"):
        exchange.memory.pop(device, None)
    stale, until_time = exchange.memory.get(device, ("", 0))
    if time() < until_time:
        return _changed_slot(exchange, response, lambda content: _insert(content, stale))
    return response


@FAULTS.fault(MEDIA)
def media_lost_at_power_off(exchange: Exchange) -> Response:
    """A power-off loses the medium; the slot shows it as inserted, and takes no other one."""
    device, machine = _device(exchange), exchange.machine
    media_by_device = exchange.memory
    if exchange.orders("insert") and media_by_device.get(device):
        return Refusal(
            409, "ResourceInUse", f"{device} holds {media_by_device[device]}."
        ).response()
    response = exchange.go()
    if exchange.orders("eject"):
        media_by_device.pop(device, None)
    if exchange.orders("power") and exchange.body().get("ResetType") == "ForceOff":
        for slot, image in machine.media.items():
            if image and exchange.occurs():
                media_by_device[slot], machine.media[slot] = image, ""
    if stale := media_by_device.get(device):
        return _changed_slot(exchange, response, lambda content: _insert(content, stale))
    return response


@FAULTS.fault(MEDIA, seconds=1.0)
def media_shown_late(exchange: Exchange) -> Response:
    """A slot shows its new medium so many seconds after the insert."""
    device = _device(exchange)
    response = exchange.go()
    if exchange.orders("insert") and response.status < 300 and exchange.occurs():
        exchange.memory[device] = time() + exchange["seconds"]
    if time() < exchange.memory.get(device, 0):
        return _changed_slot(exchange, response, lambda content: _insert(content, ""))
    return response


def _insert(content: dict[str, Any], image: str) -> None:
    """Show an image as inserted; "": none."""
    content |= {"Image": image or None, "Inserted": bool(image)}
    content["ConnectedVia"] = "URI" if image else "NotConnected"


@FAULTS.fault(MEDIA, seconds=1.0, fails=False)
def media_insert_by_task(exchange: Exchange) -> Response:
    """InsertMedia is answered 202 with a task, which inserts the medium at its end, or fails."""
    if not exchange.orders("insert") or not exchange.bmc.is_authenticated(exchange.request):
        return exchange.go()
    if not exchange.occurs():
        return exchange.go()
    effect = partial(exchange.bmc.carry_out, exchange.request)
    failure = "The image cannot be mounted." if exchange["fails"] else ""
    return ordered_task(exchange.bmc.machine, "Insert medium", effect, exchange["seconds"], failure)


# Boot settings


def _boot_of(exchange: Exchange) -> dict[str, object] | None:
    """Return the boot settings of an order, or None."""
    boot = exchange.body().get("Boot") if exchange.orders("boot") else None
    return boot if isinstance(boot, dict) else None


@FAULTS.fault(BOOT, mode="Legacy")
def boot_mode_lost(exchange: Exchange) -> Response:
    """A PATCH of Boot without the mode sets it to Legacy, as Supermicro's BMCs do."""
    boot = _boot_of(exchange)
    if boot is None or f"{OVERRIDE}Mode" in boot or not exchange.occurs():
        return exchange.go()
    body = {**exchange.body(), "Boot": {**boot, f"{OVERRIDE}Mode": exchange["mode"]}}
    return exchange.go(body=orjson.dumps(body))


@FAULTS.fault(BOOT)
def boot_whole_demanded(exchange: Exchange) -> Response:
    """A PATCH of Boot without target, enabled and mode is refused with 400, as by AMI's BMCs."""
    boot = _boot_of(exchange)
    names = [f"{OVERRIDE}{name}" for name in ("Target", "Enabled", "Mode")]
    missing_names = [name for name in names if boot is not None and name not in boot]
    if missing_names and exchange.occurs():
        return Refusal(400, "PropertyMissing", f"{missing_names[0]} is missing.").response()
    return exchange.go()


@FAULTS.fault(BOOT, status=400)
def boot_mode_fixed(exchange: Exchange) -> Response:
    """A PATCH of Boot that changes the mode is refused."""
    boot = _boot_of(exchange) or {}
    mode = boot.get(f"{OVERRIDE}Mode", exchange.machine.boot_mode)
    if mode != exchange.machine.boot_mode and exchange.occurs():
        text = f"{OVERRIDE}Mode cannot be changed."
        return Refusal(exchange["status"], "PropertyNotWritable", text).response()
    return exchange.go()


@FAULTS.fault(BOOT)
def boot_mode_not_shown(exchange: Exchange) -> Response:
    """The system shows no BootSourceOverrideMode."""

    def strip(content: dict[str, Any]) -> None:
        content["Boot"].pop(f"{OVERRIDE}Mode")
        content["Boot"].pop(f"{OVERRIDE}Mode@Redfish.AllowableValues", None)

    return exchange.edited(strip, is_concerned=exchange.path == exchange.machine.system_id)


@FAULTS.fault(BOOT)
def secure_boot_absent(exchange: Exchange) -> Response:
    """The system has no SecureBoot resource."""
    if exchange.path.endswith("/SecureBoot"):
        return exchange.missing()
    return exchange.edited(
        lambda content: content.pop("SecureBoot"),
        is_concerned=exchange.path == exchange.machine.system_id,
    )


@FAULTS.fault(BOOT, status=200)
def patch_answers_document(exchange: Exchange) -> Response:
    """A PATCH is answered 200 with the document as it was before."""
    if exchange.request.method != "PATCH" or not exchange.occurs():
        return exchange.go()
    previous_response = exchange.go(method="GET", body=b"", query="")
    response = exchange.go()
    return (
        replace(previous_response, status=exchange["status"])
        if response.status == 204
        else response
    )
