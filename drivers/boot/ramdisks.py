"""
Images that boot the agent: a prepared ISO image, or a kernel and a ramdisk.

Fields of the node take precedence over settings. A rescue uses the rescue images, or else the
images of the other flows.
"""

from collections.abc import Mapping

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Options, Target
from drivers.images.instance import Pair, pair
from drivers.net import urls

#: driver_info with the URL of an image that boots the agent by itself.
ISO_FIELDS = ("deploy_iso", "rescue_iso", "inspect_iso")
#: Prefix of a flow's provision states -> prefix of the flow's own fields and settings.
_OWN = {"rescu": "rescue", "inspect": "inspect"}
PROPERTIES = {
    "deploy_kernel": "URL of the agent's kernel; else [conductor]deploy_kernel_by_arch or"
    " deploy_kernel",
    "deploy_ramdisk": "URL of the agent's ramdisk; else [conductor]deploy_ramdisk_by_arch or"
    " deploy_ramdisk",
    "rescue_kernel": "URL of the kernel for rescues; else [conductor]rescue_kernel, else that of"
    " the agent",
    "rescue_ramdisk": "URL of the ramdisk for rescues",
    "ramdisk_signed": "true: the agent's ramdisks, and the loaders before them, start with secure"
    " boot on, so that it is not switched off for them; else [deploy]ramdisk_signed",
    "kernel_append_params": "Kernel arguments in place of those in the settings; %default% stands"
    " for the latter",
}


def iso(target: Target) -> str | None:
    """
    Return the URL of an ISO image that boots the agent, if the node has one.

    Raises InvalidDriverInfo: the URL is malformed.
    """
    for kind in _kinds(target):
        field = f"{kind}_iso"
        if target.driver_info.get(field):
            return urls.checked(target.driver_info[field], f"driver_info/{field}")
        if _given(target.options, target.driver_info, kind, "driver_info/"):
            return None
    return None


def of_agent(target: Target) -> Pair:
    """
    Return the kernel and ramdisk of the agent.

    Raises InvalidDriverInfo: none is configured, or a URL is malformed.
    """
    kinds = _kinds(target)
    for kind in kinds:
        if ramdisk_pair := _given(target.options, target.driver_info, kind, "driver_info/"):
            return ramdisk_pair
    conductor, arch = target.options["conductor"], architecture(target)
    for kind in kinds:
        by_arch = {
            f"{kind}_{part}": conductor.get(f"{kind}_{part}_by_arch", {}).get(arch)
            for part in ("kernel", "ramdisk")
        }
        if ramdisk_pair := _given(target.options, by_arch, kind, f"[conductor] for {arch}: "):
            return ramdisk_pair
        if ramdisk_pair := _given(target.options, conductor, kind, "[conductor]"):
            return ramdisk_pair
    raise InvalidDriverInfo(
        "driver_info/deploy_kernel and deploy_ramdisk are required and missing; [conductor] has"
        " none, either"
    )


def architecture(target: Target) -> str:
    return str(target.properties.get("cpu_arch") or "x86_64")


def inspects(target: Target) -> bool:
    """Return whether the agent is booted for an inspection."""
    return str(target.provision_state or "").startswith("inspect")


def _kinds(target: Target) -> tuple[str, ...]:
    state = str(target.provision_state or "")
    flow_kind = next((kind for flow, kind in _OWN.items() if state.startswith(flow)), "deploy")
    return tuple(dict.fromkeys((flow_kind, "deploy")))


def _given(options: Options, info: Mapping[str, object], kind: str, prefix: str) -> Pair | None:
    return pair(options, info, f"{kind}_kernel", f"{kind}_ramdisk", prefix)
