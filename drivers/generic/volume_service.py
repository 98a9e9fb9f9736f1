"""
Client of the volume service: Cinder's API of attachments.

An attachment connects one volume to one machine; `instance_uuid` of an attachment is the UUID of
the node. Errors: Unreachable (no answer), InvalidDriverInfo (settings of [cinder]), NotFound
(unknown volume), Refused (rejected request), Unexpected (malformed answer). No message contains a
password or connection data.

The import takes half a second; `storage` imports this module only if a node has volumes to attach.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from keystoneauth1.adapter import Adapter

from drivers.core.errors import NotFound, Refused, Unexpected
from drivers.net import keystone

#: Version of the API; the first one whose attachments can be completed.
VERSION = "3.44"


class VolumeService:
    """The service of settings [cinder]; `open_service` makes it."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def attachments(self, volume: str, machine: str) -> list[dict[str, Any]]:
        """Return the attachments of a volume to a machine, with their connection data."""
        # all_tenants: a volume may belong to a project other than that of the service
        query = {"volume_id": volume, "instance_id": machine, "all_tenants": "1"}
        attachments = self._ask("GET", "/attachments", volume, params=query).get("attachments", ())
        own_attachments = [
            attachment for attachment in attachments if attachment.get("instance") == machine
        ]  # filters may be ignored
        return [
            self._attachment("GET", f"/attachments/{attachment['id']}", volume)
            for attachment in own_attachments
        ]

    def create(self, volume: str, machine: str, connector: Mapping[str, Any]) -> dict[str, Any]:
        """
        Reserve a volume for a machine and export it to the connector; return the attachment.
        """
        body = {"volume_uuid": volume, "instance_uuid": machine, "connector": dict(connector)}
        return self._attachment("POST", "/attachments", volume, json={"attachment": body})

    def complete(self, attachment: Mapping[str, Any], volume: str) -> None:
        """Mark an attachment as complete: the volume is in use."""
        path = f"/attachments/{attachment['id']}/action"
        self._ask("POST", path, volume, json={"os-complete": None})

    def delete(self, attachment: Mapping[str, Any], volume: str) -> None:
        """Disconnect a volume from a machine; no error if it is disconnected already."""
        self._ask("DELETE", f"/attachments/{attachment['id']}", volume, missing=True)

    def _attachment(self, method: str, path: str, volume: str, **request: Any) -> dict[str, Any]:
        attachment = self._ask(method, path, volume, **request).get("attachment")
        if not isinstance(attachment, dict) or "id" not in attachment:
            raise Unexpected(f"the volume service returned no attachment of volume {volume}")
        return attachment

    def _ask(
        self, method: str, path: str, volume: str, *, missing: bool = False, **request: object
    ) -> dict[str, Any]:
        """Send a request; return the answer's document. missing: accept a 404."""
        with keystone.translated("the volume service", "cinder"):
            answer = self._adapter.request(
                path, method, microversion=VERSION, raise_exc=False, **request
            )
        try:
            document = answer.json() if answer.content else {}
        except ValueError:
            document = None
        if not answer.ok:
            if answer.status_code == 404 and missing:
                return {}
            _raise_refusal(answer, document, volume)
        if not isinstance(document, dict):
            raise Unexpected(f"the volume service returned no JSON object about volume {volume}")
        return document


@contextmanager
def open_service(options: Mapping[str, Any]) -> Iterator[VolumeService]:
    """
    Connect to the volume service. options: the settings of [cinder].

    Raises InvalidDriverInfo: a setting is missing or wrong.
    """
    retries = options["connect_retries"]
    with keystone.adapter(options, "cinder", "block-storage", connect_retries=retries) as adapter:
        yield VolumeService(adapter)


def _raise_refusal(answer: Any, document: object, volume: str) -> None:
    status, reason = answer.status_code, answer.reason
    for body in document.values() if isinstance(document, dict) else ():
        if isinstance(body, dict):  # {"itemNotFound": {"message": ...}}
            reason = body.get("message") or reason
    message = f"the volume service answered {status} for volume {volume}: {reason}"
    if status == 404:
        raise NotFound(message)
    if status < 500:
        raise Refused(message)
    raise Unexpected(message)
