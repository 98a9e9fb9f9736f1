"""
Image services: Glance, and container registries.

Only conductors read their images, and serve copies to machines.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from drivers.core.target import Target
from drivers.images import oci, references
from drivers.net import fetch


class ImageService(Protocol):
    """Module of an image service."""

    def describe(self, target: Target, reference: str) -> dict[str, str]:
        """
        Return the facts of an image, as fields of instance_info.

        Raises BadImage: there is no such image, it may not be used, or a fact is wrong.
        Raises Unreachable, Refused, Unexpected, InvalidDriverInfo: the service gives no answer.
        """

    def opened(
        self, target: Target, reference: str, headers: Mapping[str, str]
    ) -> AbstractContextManager[fetch.Source]:
        """Open the content of an image, as `drivers.net.fetch.opened` opens a URL."""


def of(reference: str) -> ImageService | None:
    """Return the service that has an image; None: it is a file or a URL."""
    match references.scheme_of(reference):
        case references.GLANCE:
            from drivers.images import glance  # keystoneauth takes half a second

            return glance
        case references.OCI:
            return oci
    return None
