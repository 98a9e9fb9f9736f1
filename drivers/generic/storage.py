"""
Storage interfaces for remote volumes: `external` and `cinder`.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from drivers.core.errors import InvalidDriverInfo
from drivers.core.interface_kinds import Storage
from drivers.core.target import Target, VolumeTarget

if TYPE_CHECKING:
    from drivers.generic.volume_service import VolumeService

#: Type of a volume connector -> its key in Cinder's connector, and whether that is a list.
_CONNECTOR_KEYS: Mapping[str, tuple[str, bool]] = {
    "iqn": ("initiator", False),
    "ip": ("ip", False),
    "wwpn": ("wwpns", True),
    "wwnn": ("wwnns", True),
}
#: Keys by which a volume service finds the machine; a connector needs one of them.
_IDENTITIES = ("initiator", "wwpns")


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
            if not any(
                connector.type in ("iqn", "ip", "mac") for connector in target.volume_connectors
            ):
                raise InvalidDriverInfo(
                    f"volume target {volume.uuid} is a boot volume over iSCSI, but the node has no"
                    " volume connector of type iqn, ip or mac"
                )


class CinderStorage(ExternalStorage):
    """Volumes of Cinder, attached by each deployment and detached by the tear-down."""

    name = "cinder"

    def validate(self, target: Target) -> None:
        super().validate(target)
        if target.volume_targets:
            settings = target.options["cinder"]
            if not (settings["auth_url"] or settings["endpoint_override"]):
                raise InvalidDriverInfo(
                    "storage_interface cinder needs the setting [cinder]auth_url, or"
                    " [cinder]endpoint_override with [cinder]auth_type none"
                )
            _connector(target)

    def attach_volumes(self, target: Target) -> None:
        """
        Frame step: attach all volumes of the node and record how to reach them.

        An attachment of an earlier attempt is used again.
        """
        connector, attached_volumes = _connector(target), {}
        with _service(target) as service:
            for volume in target.volume_targets:
                attached_volumes[volume.uuid] = _attached(target, service, volume, connector)
        target.report(volume_targets=attached_volumes)

    def detach_volumes(self, target: Target) -> None:
        """Frame step: detach all volumes of the node and delete their connection data."""
        with _service(target) as service:
            for volume in target.volume_targets:
                for attachment in service.attachments(volume.volume_id, target.uuid):
                    target.before_order()
                    service.delete(attachment, volume.volume_id)
        emptied_volumes: dict[str, object] = {
            volume_target.uuid: {"properties": {}} for volume_target in target.volume_targets
        }
        target.report(volume_targets=emptied_volumes)


def _service(target: Target) -> AbstractContextManager["VolumeService"]:
    from drivers.generic.volume_service import (
        open_service,  # imports keystoneauth, which takes long
    )

    return open_service(target.options["cinder"])


def _attached(
    target: Target, service: "VolumeService", volume: VolumeTarget, connector: Mapping[str, Any]
) -> dict[str, Any]:
    """Attach a volume; return the columns of its volume target."""
    attachments = service.attachments(volume.volume_id, target.uuid)
    if attachments:
        attachment = attachments[0]
    else:
        target.before_order()
        attachment = service.create(volume.volume_id, target.uuid, connector)
    if attachment.get("status") != "attached":
        target.before_order()
        service.complete(attachment, volume.volume_id)
    connection = dict(attachment.get("connection_info") or {})
    kind = connection.pop("driver_volume_type", volume.volume_type)
    return {"volume_type": kind, "properties": connection}


def _connector(target: Target) -> dict[str, Any]:
    """
    Return the node's volume connectors in Cinder's form.

    Raises InvalidDriverInfo: the node has no connector by which volumes can be attached.
    """
    facts: dict[str, Any] = {"host": target.uuid}
    for volume_connector in target.volume_connectors:
        key, is_list = _CONNECTOR_KEYS.get(volume_connector.type, (None, False))
        if key is None:
            continue
        if is_list:
            facts.setdefault(key, []).append(volume_connector.connector_id)
        else:
            facts.setdefault(key, volume_connector.connector_id)
    if not any(key in facts for key in _IDENTITIES):
        raise InvalidDriverInfo(
            f"node {target.uuid} has volume targets, but no volume connector of type iqn or wwpn"
        )
    return facts
