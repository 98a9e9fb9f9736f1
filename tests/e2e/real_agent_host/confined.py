"""
Start of ironic-python-agent on a machine that is only a folder.

The agent erases every disk that it can open. So it is started only in a process that can open none:
not root, without capabilities or a way to gain any, and with access to every disk of this host
refused by the kernel. Its only hardware manager is ours, which knows one disk: a file.

    PATH=folder/bin python folder/confined.py --config-file agent.conf
"""

import ctypes
import os
import signal
import stat
import sys
from functools import partial
from pathlib import Path

SET_PDEATHSIG, SET_NO_NEW_PRIVS = 1, 38
#: Character devices that give access to a disk, the memory or the BMC.
ALSO_DANGEROUS = ("bsg", "ipmi", "mem", "ng", "nvme", "port", "sg")


def confine():
    """Give up privileges for good; exit if the process could still harm this host."""
    libc = ctypes.CDLL(None)
    libc.prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        sys.exit("this kernel cannot keep the agent from gaining privileges")
    if 0 in (os.getuid(), os.geteuid()):
        sys.exit("the agent must not run as root: it erases disks")
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("CapInh", "CapPrm", "CapEff", "CapAmb") and int(value, 16):
            sys.exit(f"the agent must not have capabilities: {line}")
    within_reach = [str(path) for path in dangerous_devices() if can_open(path)]
    if within_reach:
        sys.exit(f"this user can open {', '.join(within_reach)}: the agent might erase it")


def dangerous_devices():
    for folder, _, names in os.walk("/dev"):
        for path in (Path(folder, name) for name in names):
            try:
                mode = path.stat().st_mode
            except OSError:
                continue
            name = path.relative_to("/dev").as_posix()
            if stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and name.startswith(ALSO_DANGEROUS)):
                yield path


def can_open(path):
    for access in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(path, access | os.O_NONBLOCK))
        except OSError:
            continue
        return True
    return False


def convert_to_file(source, disk, *_formats, source_format, **_settings):
    """Replacement of the agent's image conversion, for a disk that is a file."""
    from ironic_python_agent import utils

    utils.execute("qemu-img", "convert", "-n", "-f", source_format, "-O", "raw", source, disk)


def main():
    confine()
    from ironic_python_agent.cmd import agent  # first: it reads the configuration  # isort: skip
    from ironic_python_agent import disk_utils, hardware, qemu_img
    from ironic_python_agent.extensions import base, rescue
    from stevedore import enabled, named

    # the agent's own managers would inspect the real machine
    hardware._get_extensions = lambda: named.NamedExtensionManager(
        "ironic_python_agent.hardware_managers",
        names=["a-file"],
        invoke_on_load=True,
        warn_on_missing_entrypoint=True,
    )
    # older ramdisks have fewer extensions
    base.extension.ExtensionManager = partial(
        enabled.EnabledExtensionManager,
        check_func=lambda extension: extension.name not in os.environ["MACHINE_LACKS"].split(),
    )
    qemu_img.convert_image = convert_to_file
    disk_utils.is_block_device = os.path.exists
    rescue.PASSWORD_FILE = str(Path(__file__).resolve().with_name("rescue-password"))
    agent.run()


if __name__ == "__main__":
    main()
