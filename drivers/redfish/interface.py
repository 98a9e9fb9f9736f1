"""
What interfaces for Redfish have in common, whatever their kind.
"""

from collections.abc import Mapping
from typing import ClassVar

from drivers.core.target import Target
from drivers.redfish import access


class Redfish:
    """Goes before the kind: `class RedfishBios(Redfish, Bios)`."""

    name: ClassVar[str] = "redfish"
    properties: ClassVar[Mapping[str, str]] = access.PROPERTIES

    def validate(self, target: Target) -> None:
        """The node's settings say where its BMC is. Raises InvalidDriverInfo."""
        access.access(target)
