"""
What a kernel is told when it is booted: the arguments of its command line.
"""

from drivers.boot import addresses, ramdisks
from drivers.errors import InvalidDriverInfo
from drivers.target import Target

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
    words = [appended(target, group)]
    if ramdisks.inspects(target):
        arguments["ipa-inspection-callback-url"] = f"{api}{INSPECTION}"
        words.append(_one_line(target.options["inspector"]["extra_kernel_params"], "[inspector]"))
    if target.options["DEFAULT"]["log_level"] == "debug":
        arguments["ipa-debug"] = "1"
    words += [f"{name.replace('__', '-')}={value}" for name, value in arguments.items()]
    return " ".join(word for word in words if word)


def of_instance(target: Target, group: str) -> str:
    """For the kernel of a ramdisk that is the instance. Raises InvalidDriverInfo."""
    own = target.instance_info.get("ramdisk_kernel_arguments")
    if own is not None:
        return f"root=/dev/ram0 {_one_line(own, 'instance_info/ramdisk_kernel_arguments')}".strip()
    return f"root=/dev/ram0 {appended(target, group)}".strip()


def appended(target: Target, group: str) -> str:
    """kernel_append_params of instance, node or settings. Raises InvalidDriverInfo."""
    default = str(target.options[group]["kernel_append_params"] or "")
    for place, info in (
        ("instance_info", target.instance_info),
        ("driver_info", target.driver_info),
    ):
        given = info.get("kernel_append_params")
        if given is not None:
            return _one_line(given, f"{place}/kernel_append_params").replace("%default%", default)
    return default


def _one_line(text: object, where: str) -> str:
    """Raises InvalidDriverInfo: what is more than a line would be a command of the boot loader."""
    line = str(text or "").strip()
    if any(not character.isprintable() for character in line):
        raise InvalidDriverInfo(f"{where}: kernel arguments are one line of printable characters")
    return line
