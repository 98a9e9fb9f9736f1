"""
Mixin of the Redfish interfaces.
"""

from collections.abc import Mapping
from typing import ClassVar

from drivers.core.target import Target
from drivers.redfish.transport import access


class Redfish:
    """Name, driver_info keys and validation; precedes the kind: `RedfishBios(Redfish, Bios)`."""

    name: ClassVar[str] = "redfish"
    properties: ClassVar[Mapping[str, str]] = access.PROPERTIES
    records_exchanges: ClassVar[bool] = True

    def validate(self, target: Target) -> None:
        """
        Check address and login of the BMC.

        Raises InvalidDriverInfo: names the field.
        """
        access.access(target)
