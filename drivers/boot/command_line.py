"""
What a kernel is told when it is booted: the arguments of its command line.
"""

from drivers.boot import ramdisks
from drivers.core.target import Target
from drivers.images import addresses, instance, words

#: Where an agent posts what it found, below the URL of the API.
INSPECTION = "/v1/continue_inspection"


def of_agent(target: Target, group: str, *, outside: bool, **more: str) -> str:
    """
    For the kernel of the agent.

    group: of the setting kernel_append_params. outside: the machine may not be in our network.
    more: name -> value of arguments that only one way of booting has.
    Raises InvalidDriverInfo for arguments that cannot stand in a line.
    """
    api = addresses.of_api(target.options, outside=outside)
    arguments = {"ipa-api-url": api, **more}
    given = [appended(target, group)]
    if ramdisks.inspects(target):
        arguments["ipa-inspection-callback-url"] = f"{api}{INSPECTION}"
        given.append(target.options["inspector"]["extra_kernel_params"])
    if target.options["DEFAULT"]["log_level"] == "debug":
        arguments["ipa-debug"] = "1"
    given += [f"{name.replace('__', '-')}={value}" for name, value in arguments.items()]
    return " ".join(each for each in given if each)


def of_instance(target: Target, group: str) -> str:
    """For the kernel of a ramdisk that is the instance. Raises InvalidDriverInfo."""
    own = instance.kernel_arguments(target)
    return f"root=/dev/ram0 {appended(target, group) if own is None else own}".strip()


def of_installer(target: Target, group: str, kickstart: str) -> str:
    """For the kernel of an installer. kickstart: URL of its file. Raises InvalidDriverInfo."""
    stage2 = instance.installer_stage2(target)
    return f"{appended(target, group)} inst.ks={kickstart} inst.stage2={stage2}".strip()


def appended(target: Target, group: str) -> str:
    """kernel_append_params of instance, node or settings. Raises InvalidDriverInfo."""
    default = str(target.options[group]["kernel_append_params"] or "")
    for place, info in (
        ("instance_info", target.instance_info),
        ("driver_info", target.driver_info),
    ):
        given = info.get("kernel_append_params")
        if given is not None:
            own = words.line(given, f"{place}/kernel_append_params")
            return own.replace("%default%", default)
    return default
