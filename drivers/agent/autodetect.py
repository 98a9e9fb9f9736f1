"""
Choosing the deploy interface by the image: interface `autodetect`.

It is `ramdisk` for an instance that boots an ISO image or a ramdisk, and `direct` for others.
"""

from collections.abc import Mapping

from drivers.agent.deploy import Direct
from drivers.agent.ramdisk import RamdiskDeploy


class Autodetect(Direct):
    """`direct`, unless `instance_info` names another way."""

    name = "autodetect"

    def stand_in(self, instance_info: Mapping[str, object]) -> str | None:
        if instance_info.get("image_source"):
            return None
        boots_ramdisk = instance_info.get("boot_iso") or (
            instance_info.get("kernel") and instance_info.get("ramdisk")
        )
        return RamdiskDeploy.name if boots_ramdisk else None
