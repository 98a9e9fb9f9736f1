"""
Static network configuration of the agent: `network_data` of its node, on the media made here.

Ramdisks of ironic-python-agent-builder look for a medium with the label `config-2` and the
publisher in the kernel argument `ir_pub_id`, and mount it at /mnt/config. glean configures the
network from it, instead of DHCP (decision record 0015).
"""

import json
from collections.abc import Mapping

from drivers.boot import ramdisks
from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Target

#: Volume label of a medium that has the document.
LABEL = "config-2"


def files(target: Target) -> dict[str, bytes]:
    """Return path -> content on the medium of the agent's next boot; empty: it uses DHCP."""
    if ramdisks.inspects(target) and target.options["inspector"]["force_dhcp"]:
        return {}
    if not target.network_data:
        return {}
    return {"openstack/latest/network_data.json": json.dumps(target.network_data).encode()}


def mounted(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of a medium at their paths below the ramdisk's root."""
    return {f"mnt/config/{path}": content for path, content in files.items()}


def refuse(target: Target, reason: str) -> None:
    """Raise InvalidDriverInfo if the node has network_data. reason: why no medium can carry it."""
    if target.network_data:
        raise InvalidDriverInfo(f"network_data: {reason}; remove network_data")
