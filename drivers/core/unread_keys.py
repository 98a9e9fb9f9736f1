"""
Keys of nodes that Ironic reads and this service does not, and that would change the result.

Validation refuses a node with such a key. Keys of Ironic that make no difference here are listed in
docs/compatibility.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from drivers.core.errors import InvalidDriverInfo
from drivers.core.target import Target


@dataclass(frozen=True, slots=True)
class Refusal:
    """A key that an interface refuses."""

    kind: str  # of the interface whose validation refuses it
    place: str  # driver_info or instance_info
    key: str
    reason: str  # a clause, with the way out
    #: values that need no support, in lower case
    accepted: tuple[str, ...] = ()


_NO_TLS = "the TLS of connections to one BMC cannot be limited; configure OpenSSL on the conductors"

REFUSALS: Sequence[Refusal] = (
    Refusal(
        "boot", "driver_info", "pxe_template",
        "boot scripts have no templates of nodes; kernel_append_params changes their command line",
    ),
    Refusal(
        "boot", "driver_info", "vmedia_transport_protocol",
        "BMCs fetch virtual media by HTTP or HTTPS only", accepted=("http", "https"),
    ),
    Refusal(
        "deploy", "driver_info", "image_pull_secret",
        "a lessee who names a registry would get it; use [oci]authentication_config, which has"
        " secrets by registry",
    ),
    Refusal(
        "deploy", "instance_info", "image_request_authorization_secret",
        "use image_server_user and image_server_password",
    ),
    Refusal("power", "driver_info", "redfish_tls_minimum_version", _NO_TLS),
    Refusal("power", "driver_info", "redfish_tls_ciphers", _NO_TLS),
)  # fmt: skip


def refuse_unread(target: Target, kind: str) -> None:
    """
    Check that the node has no key that only Ironic reads. kind: of the validated interface.

    Raises InvalidDriverInfo: names the key.
    """
    for refusal in REFUSALS:
        if refusal.kind != kind:
            continue
        info = target.driver_info if refusal.place == "driver_info" else target.instance_info
        value = info.get(refusal.key)
        if value in (None, "") or str(value).lower() in refusal.accepted:
            continue
        raise InvalidDriverInfo(f"{refusal.place}/{refusal.key}: {refusal.reason}")
