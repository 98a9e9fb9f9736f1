"""
Commands of the simulated agent, and their effects on the machine.

A command is an async function of the agent's ramdisk and the parameters. It returns the command's
result, or raises `Failed`.
"""

import asyncio
import base64
import hashlib
import io
import json
import tarfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivers.simulator import media
from drivers.simulator.faults import Faults, find
from drivers.simulator.machine import Image
from drivers.simulator.ramdisk import Ramdisk
from drivers.simulator.redfish_bmc.inventory import inventory

Params = Mapping[str, Any]
Step = dict[str, Any]


class Failed(Exception):
    """
    The command failed: `kind` and `message` as in the agent's errors, `details` is the reason.
    """

    def __init__(
        self,
        details: str,
        kind: str = "CommandExecutionError",
        message: str = "Command execution failed",
        status: str = "FAILED",
    ) -> None:
        super().__init__(details)
        self.status = status
        self.document = {"type": kind, "code": 500, "message": message, "details": details}


@dataclass(frozen=True, slots=True)
class Entry:
    """A command. `background`: the agent answers RUNNING at once, unless the client waits."""

    run: Callable[[Ramdisk, Params], Awaitable[object]]
    background: bool = False


def _step(
    interface: str, name: str, priority: int = 0, *, abortable: bool = False, **attributes: object
) -> Step:
    return {
        "interface": interface,
        "step": name,
        "priority": priority,
        "reboot_requested": False,
        "abortable": abortable,
        **attributes,
    }


RAID_STEPS = [_step("raid", "delete_configuration"), _step("raid", "create_configuration")]
APPLY_RAID = _step(
    "raid",
    "apply_configuration",
    argsinfo={
        "raid_config": {"description": "RAID configuration to build", "required": True},
        "delete_existing": {
            "description": "Delete the existing RAID first; true when missing",
            "required": False,
        },
    },
)
INJECT_FILES = _step(
    "deploy",
    "inject_files",
    argsinfo={
        "files": {"description": "Files to write: path, content, mode", "required": False},
        "verify_ca": {
            "description": "Verify certificates of URLs of contents; true when missing",
            "required": False,
        },
    },
)
STEPS: dict[str, list[Step]] = {
    "clean": [
        _step("deploy", "erase_devices", 10, abortable=True),
        _step("deploy", "erase_devices_metadata", 99, abortable=True),
        _step("deploy", "erase_devices_express", abortable=True),
        _step("deploy", "erase_pstore", abortable=True),
        *RAID_STEPS,
        _step("deploy", "burnin_cpu"),
        _step("deploy", "burnin_disk"),
        _step("deploy", "burnin_memory"),
    ],
    "deploy": [
        _step("deploy", "erase_devices_metadata"),
        _step("deploy", "erase_devices_express"),
        _step("deploy", "write_image"),
        INJECT_FILES,
        APPLY_RAID,
    ],
    "service": [*RAID_STEPS, APPLY_RAID],
}
MANAGER = "generic_hardware_manager"


def steps(flow: str, faults: Faults) -> list[Step]:
    """Return the agent's steps of a flow, with those that the faults add or change."""
    offered = {(step["interface"], step["step"]): step for step in STEPS[flow]}
    for step in faults.steps.get(flow, ()):
        key = (step["interface"], step["step"])
        offered[key] = {**_step(*key), **offered.get(key, {}), **step}
    return list(offered.values())


def _get_steps(flow: str) -> Entry:
    async def run(agent: Ramdisk, _params: Params) -> object:
        faults = agent.machine.faults
        return {
            f"{flow}_steps": {MANAGER: steps(flow, faults)},
            "hardware_manager_version": {MANAGER: faults.manager_version},
        }

    return Entry(run)


def _execute_step(flow: str) -> Entry:
    async def run(agent: Ramdisk, params: Params) -> object:
        machine, step = agent.machine, params["step"]
        requested_versions, have = (
            params.get(f"{flow}_version"),
            {MANAGER: machine.faults.manager_version},
        )
        if requested_versions and requested_versions != have:
            raise Failed(
                f"the service has {requested_versions}, the agent {have}",
                "VersionMismatch",
                "Hardware managers version mismatch, reload agent with correct version",
                "CLEAN_VERSION_MISMATCH",
            )
        key = (step.get("interface"), step.get("step"))
        if key not in [
            (entry["interface"], entry["step"]) for entry in steps(flow, machine.faults)
        ]:
            raise Failed(f"no hardware manager has the {flow} step {key[1]} of {key[0]}")
        name = ".".join(key)
        seconds = machine.faults.seconds(name)
        if machine.faults.agent_dies in (name, key[1]) and "agent_dies" not in machine.spent:
            machine.spent.add("agent_dies")
            await asyncio.sleep(seconds / 2)
            machine.record("machine", "the agent dies", name)
            agent.lose("dead")
        await asyncio.sleep(seconds)
        reason = find(machine.faults.step_fails, name)
        if reason is not None:
            raise Failed(reason)
        function = WORK.get(key[1])
        result = await function(agent, params) if function else None
        result = find(machine.faults.step_results, name) or result
        return {f"{flow}_result": result, f"{flow}_step": step}

    return Entry(run, background=True)


async def _write_image(agent: Ramdisk, params: Params) -> object:
    return await _prepare_image(agent, params["step"].get("args") or {})


async def _prepare_image(agent: Ramdisk, params: Params) -> object:
    return await write_image(agent, params.get("image_info") or {}, params.get("configdrive"))


async def write_image(agent: Ramdisk, info: Params, configdrive: object) -> object:
    """Fetch the image, verify its checksum and make it the disk's content."""
    algorithm, expected_digest = await _checksum(agent, info)
    errors = []
    for url in info["urls"]:
        content, digest, size = hashlib.sha256(), hashlib.new(algorithm), 0
        try:
            async for piece in media.read(agent.client, url, insecure=agent.insecure):
                content.update(piece)
                digest.update(piece)
                size += len(piece)
        except media.Unreadable as error:
            errors.append(str(error))
            continue
        if digest.hexdigest() != expected_digest.lower():
            raise Failed(
                f"{algorithm} of {url} is {digest.hexdigest()}, expected {expected_digest}",
                "ImageChecksumError",
                "Error verifying image checksum",
            )
        carries = bool(configdrive or info.get("configdrive"))
        agent.machine.disk = Image(str(info["id"]), content.hexdigest(), size, carries)
        return {
            "result": f"prepare_image: image ({info['id']}) written to device /dev/sda"
            f" root_uuid={_root_uuid(agent.machine.disk)}"
        }
    raise Failed("; ".join(errors), "ImageDownloadError", "Error downloading image")


async def _checksum(agent: Ramdisk, info: Params) -> tuple[str, str]:
    """Return (algorithm, expected hex digest) of an image_info. Raises Failed."""
    algorithm, expected_digest = info.get("os_hash_algo"), info.get("os_hash_value")
    if not (algorithm and expected_digest):
        expected_digest = info.get("checksum") or ""
        algorithm = {32: "md5", 64: "sha256", 128: "sha512"}.get(len(expected_digest), "md5")
    missing_name = next((name for name in ("id", "urls") if not info.get(name)), None)
    if missing_name or not expected_digest:
        raise Failed(
            f"image_info is missing {missing_name or 'checksum or os_hash_algo and os_hash_value'}",
            "InvalidCommandParamsError",
            "Invalid command parameters",
        )
    if expected_digest.startswith(("http://", "https://", "file:")):
        try:
            pieces = [piece async for piece in media.read(agent.client, expected_digest)]
        except media.Unreadable as error:
            raise Failed(str(error), "ImageDownloadError", "Error downloading image") from None
        expected_digest = b"".join(pieces).decode("ascii", "replace").split()[0]
    if algorithm not in hashlib.algorithms_available:
        raise Failed(f"unknown checksum algorithm {algorithm}")
    return algorithm, expected_digest


def _root_uuid(image: Image) -> str:
    return f"0x{image.sha256[:8]}"


async def _erase(agent: Ramdisk, _params: Params) -> None:
    agent.machine.disk = None


async def _erase_all(agent: Ramdisk, _params: Params) -> object:
    """Erase all disks; return their names, each without an output, as the agent does."""
    agent.machine.disk = None
    disks = inventory(agent.machine, agent.macs)["inventory"]["disks"]
    return {disk["name"]: None for disk in disks}


async def _create_raid(agent: Ramdisk, params: Params) -> object:
    target_config = (params.get("node") or {}).get("target_raid_config")
    return _build_raid(agent, "target_raid_config", target_config)


async def _apply_raid(agent: Ramdisk, params: Params) -> object:
    args = params["step"].get("args") or {}
    kept_disks = [] if args.get("delete_existing", True) else agent.machine.raid
    return _build_raid(agent, "raid_config", args.get("raid_config"), kept_disks)


async def _delete_raid(agent: Ramdisk, _params: Params) -> None:
    agent.machine.raid = []


def _build_raid(
    agent: Ramdisk, name: str, config: object, kept_disks: Sequence[Any] = ()
) -> object:
    """Build logical disks in addition to the kept ones; return the configuration. Raises Failed."""
    if not isinstance(config, Mapping) or not config.get("logical_disks"):
        raise Failed(f"{name} has no logical_disks")
    agent.machine.raid = [*kept_disks, *config["logical_disks"]]
    return {**config, "logical_disks": agent.machine.raid}


async def _get_partition_uuids(agent: Ramdisk, _params: Params) -> object:
    disk = agent.machine.disk
    return {"root uuid": _root_uuid(disk)} if disk else {}


async def _install_bootloader(agent: Ramdisk, _params: Params) -> None:
    await asyncio.sleep(agent.machine.faults.seconds("image.install_bootloader"))
    if agent.machine.disk is None:
        raise Failed("there is no operating system on the disk")


async def _power_off(agent: Ramdisk, _params: Params) -> None:
    agent.switch("off")


async def _run_image(agent: Ramdisk, _params: Params) -> None:
    agent.switch("restart")


async def _lockdown(agent: Ramdisk, _params: Params) -> None:
    agent.leave("locked down")


async def _finalize_rescue(agent: Ramdisk, params: Params) -> None:
    if not params.get("rescue_password"):
        raise Failed("no rescue password", "InvalidCommandParamsError", "Invalid parameters")
    agent.machine.runs = "rescue"
    agent.leave("rescued")


async def _collect_logs(agent: Ramdisk, _params: Params) -> object:
    text = "\n".join(json.dumps(entry, default=str) for entry in agent.machine.log).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("journal")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return {"system_logs": base64.b64encode(packed.getvalue()).decode()}


async def _nothing(_agent: Ramdisk, _params: Params) -> object:
    return None


#: Effects of steps, by step name without the interface.
WORK: dict[str, Callable[[Ramdisk, Params], Awaitable[object]]] = {
    "erase_devices": _erase_all,
    "erase_devices_metadata": _erase,
    "erase_devices_express": _erase,
    "write_image": _write_image,
    "create_configuration": _create_raid,
    "apply_configuration": _apply_raid,
    "delete_configuration": _delete_raid,
}


async def _get_hardware_info(agent: Ramdisk, _params: Params) -> object:
    return inventory(agent.machine, agent.macs)["inventory"]


COMMANDS: dict[str, dict[str, Entry]] = {
    **{
        flow: {
            f"get_{flow}_steps": _get_steps(flow),
            f"execute_{flow}_step": _execute_step(flow),
        }
        for flow in STEPS
    },
    "standby": {
        "prepare_image": Entry(_prepare_image, background=True),
        "get_partition_uuids": Entry(_get_partition_uuids),
        "sync": Entry(_nothing),
        "power_off": Entry(_power_off, background=True),
        "run_image": Entry(_run_image, background=True),
    },
    "image": {"install_bootloader": Entry(_install_bootloader, background=True)},
    "system": {"lockdown": Entry(_lockdown, background=True)},
    "rescue": {"finalize_rescue": Entry(_finalize_rescue)},
    "log": {"collect_system_logs": Entry(_collect_logs)},
    "poll": {"get_hardware_info": Entry(_get_hardware_info)},
}
