"""
Storage interface `external`: remote volumes that are managed elsewhere.
"""

from drivers.core.errors import InvalidDriverInfo
from drivers.core.kinds import Storage
from drivers.core.target import Target


class ExternalStorage(Storage):
    """Volumes created, and attached to the node's volume connectors, by another service."""

    name = "external"

    def validate(self, target: Target) -> None:
        boot = target.driver.boot
        for volume in target.volume_targets:
            if volume.volume_type != "iscsi" or volume.boot_index != 0:
                continue
            if "iscsi_volume" not in boot.options:
                raise InvalidDriverInfo(
                    f"boot_interface {boot.name} cannot boot from volume target {volume.uuid}: it"
                    " does not support iSCSI"
                )
            if not any(each.type in ("iqn", "ip", "mac") for each in target.volume_connectors):
                raise InvalidDriverInfo(
                    f"volume target {volume.uuid} is a boot volume over iSCSI, but the node has no"
                    " volume connector of type iqn, ip or mac"
                )
