"""
References to images: a URL, the UUID of an image in Glance, or an image of a container registry.

A bare UUID is what Nova writes, and equals `glance://UUID`. Conductors read images of services
themselves, so machines get neither a token nor the address of the service.
"""

import re
from urllib.parse import urlsplit

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Options
from drivers.images import registries
from drivers.net import networks, urls

GLANCE, OCI = "glance", "oci"
_UUID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE)
_PREFIX = f"{GLANCE}://"


def scheme_of(reference: object) -> str:
    """Return the scheme of a reference, in lower case; empty if it has none."""
    text = str(reference)
    if _UUID.fullmatch(text):
        return GLANCE
    try:
        return urlsplit(text).scheme
    except ValueError:
        return ""


def is_served(reference: object) -> bool:
    """Return whether only conductors can read the image, so that they serve it to machines."""
    return scheme_of(reference) in (GLANCE, OCI, "file")


def readable(options: Options, reference: object, field: str) -> str:
    """
    Check a reference to an image that a conductor reads; return it.

    field: its name, for the error.

    Raises InvalidDriverInfo: it is malformed, or a setting refuses it.
    """
    if scheme_of(reference) == GLANCE:
        glance_id(reference, field)
        _check_configured(options, field)
        return str(reference)
    if scheme_of(reference) == OCI:
        host = registries.parsed(reference, field).host
        networks.of_urls(options, field).check_url(f"https://{host}/")
        return str(reference)
    if ":" not in str(reference):
        raise InvalidDriverInfo(
            f"{field}: {reference!r:.200} is neither a URL nor the UUID of an image in Glance"
        )
    return urls.readable(options, reference, field)


def glance_id(reference: object, field: str) -> str:
    """
    Return the UUID of an image in Glance, in lower case.

    Raises InvalidDriverInfo: it is no UUID.
    """
    text = str(reference)
    uuid = text[len(_PREFIX) :] if text.lower().startswith(_PREFIX) else text
    if not _UUID.fullmatch(uuid):
        raise InvalidDriverInfo(f"{field}: {text!r:.200} is not {_PREFIX} and the UUID of an image")
    return uuid.lower()


def _check_configured(options: Options, field: str) -> None:
    glance = options[GLANCE]
    if not (glance["auth_url"] or glance["endpoint_override"]):
        raise InvalidDriverInfo(
            f"{field}: this names an image in Glance, but no image service is configured: set"
            " [glance]auth_url and its credentials"
        )
