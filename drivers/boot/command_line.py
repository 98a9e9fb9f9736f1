"""Kernel command lines of agents, ramdisk instances and installers."""

from drivers.boot import ramdisks
from drivers.core.target import Target
from drivers.images import instance, script_text
from drivers.net import service_addresses

#: Path of the API for the agent's inspection report.
INSPECTION = "/v1/continue_inspection"


def of_agent(target: Target, group: str, *, outside: bool, **extra_arguments: str) -> str:
    """
    Return the command line of the agent's kernel.

    group: settings group with kernel_append_params. outside: the machine may be on another network.
    extra_arguments: name -> value of further arguments; `__` in a name becomes a hyphen.

    Raises InvalidDriverInfo: an argument is unsafe in a boot script.
    """
    api = service_addresses.of_api(target.options, outside=outside)
    arguments = {"ipa-api-url": api, **extra_arguments}
    arguments_given = [appended(target, group)]
    if ramdisks.inspects(target):
        arguments["ipa-inspection-callback-url"] = f"{api}{INSPECTION}"
        arguments_given.append(target.options["inspector"]["extra_kernel_params"])
    if target.options["DEFAULT"]["log_level"] == "debug":
        arguments["ipa-debug"] = "1"
    arguments_given += [f"{name.replace('__', '-')}={value}" for name, value in arguments.items()]
    return " ".join(argument for argument in arguments_given if argument)


def of_instance(target: Target, group: str) -> str:
    """Return the command line of a ramdisk instance. Raises InvalidDriverInfo."""
    of_node = instance.kernel_arguments(target)
    return f"root=/dev/ram0 {appended(target, group) if of_node is None else of_node}".strip()


def of_installer(target: Target, group: str, kickstart: str) -> str:
    """
    Return the command line of an installer. kickstart: URL of its file. Raises InvalidDriverInfo.
    """
    stage2 = instance.installer_stage2(target)
    return f"{appended(target, group)} inst.ks={kickstart} inst.stage2={stage2}".strip()


def appended(target: Target, group: str) -> str:
    """
    Return kernel_append_params of the instance, the node or the settings.

    Raises InvalidDriverInfo: it is unsafe in a boot script.
    """
    default = str(target.options[group]["kernel_append_params"] or "")
    for group_name, info in (
        ("instance_info", target.instance_info),
        ("driver_info", target.driver_info),
    ):
        arguments_given = info.get("kernel_append_params")
        if arguments_given is not None:
            of_node = script_text.line(arguments_given, f"{group_name}/kernel_append_params")
            return of_node.replace("%default%", default)
    return default
