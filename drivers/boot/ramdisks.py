"""
What a machine boots to run the agent: an image made beforehand, or a kernel and a ramdisk.

What the node says goes before what the settings say; a rescue has a ramdisk of its own, or else
that of all other work.
"""

from collections.abc import Mapping
from typing import Any

from drivers import urls
from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Options, Target
from drivers.images.instance import Pair, pair

#: how the states of a flow begin -> what the names of its own files begin with
_OWN = {"rescu": "rescue", "inspect": "inspect"}
PROPERTIES = {
    "deploy_kernel": "URL of the agent's kernel; else [conductor]deploy_kernel_by_arch or"
    " deploy_kernel",
    "deploy_ramdisk": "URL of the agent's ramdisk; else [conductor]deploy_ramdisk_by_arch or"
    " deploy_ramdisk",
    "rescue_kernel": "URL of the kernel to rescue with; else [conductor]rescue_kernel, else that of"
    " the agent",
    "rescue_ramdisk": "URL of the ramdisk to rescue with",
    "kernel_append_params": "Kernel arguments instead of those that the settings name, which"
    " %default% stands for",
}


def iso(target: Target) -> str | None:
    """The URL of an image that boots the agent, if the node names one. Raises InvalidDriverInfo."""
    for kind in _kinds(target):
        field = f"{kind}_iso"
        if target.driver_info.get(field):
            return urls.checked(target.driver_info[field], f"driver_info/{field}")
        if _given(target.options, target.driver_info, kind, "driver_info/"):
            return None
    return None


def of_agent(target: Target) -> Pair:
    """The kernel and the ramdisk that run the agent. Raises InvalidDriverInfo."""
    kinds = _kinds(target)
    for kind in kinds:
        if found := _given(target.options, target.driver_info, kind, "driver_info/"):
            return found
    conductor, arch = target.options["conductor"], architecture(target)
    for kind in kinds:
        by_arch = {
            f"{kind}_{part}": conductor.get(f"{kind}_{part}_by_arch", {}).get(arch)
            for part in ("kernel", "ramdisk")
        }
        if found := _given(target.options, by_arch, kind, f"[conductor] for {arch}: "):
            return found
        if found := _given(target.options, conductor, kind, "[conductor]"):
            return found
    raise InvalidDriverInfo(
        "driver_info/deploy_kernel and deploy_ramdisk are required and missing; [conductor] names"
        " none, either"
    )


def architecture(target: Target) -> str:
    return str(target.properties.get("cpu_arch") or "x86_64")


def inspects(target: Target) -> bool:
    """Whether the agent is booted to report what the machine is made of."""
    return str(target.provision_state or "").startswith("inspect")


def _kinds(target: Target) -> tuple[str, ...]:
    state = str(target.provision_state or "")
    own = next((kind for flow, kind in _OWN.items() if state.startswith(flow)), "deploy")
    return tuple(dict.fromkeys((own, "deploy")))


def _given(options: Options, info: Mapping[str, Any], kind: str, where: str) -> Pair | None:
    return pair(options, info, f"{kind}_kernel", f"{kind}_ramdisk", where)
