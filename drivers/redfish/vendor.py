"""Redfish: vendor functions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from drivers.core.errors import InvalidDriverInfo, NotFound, Unconfirmed
from drivers.core.interface_kinds import Vendor
from drivers.core.passthru import passthru
from drivers.core.target import Target
from drivers.redfish.booting import virtual_media
from drivers.redfish.booting.virtual_drives import MEDIA
from drivers.redfish.interface import Redfish
from drivers.redfish.transport import client
from drivers.redfish.transport.conversions import entry, last_part

if TYPE_CHECKING:
    from sushy.resources.eventservice.eventdestination import (
        EventDestination,
        EventDestinationCollection,
    )


#: Keys of a subscription in answers; others may hold secrets, such as headers with passwords.
_SUBSCRIPTION_FIELDS = ("Id", "Context", "Protocol", "Destination", "EventTypes")
_ID = "Required argument: id, as the BMC gives it"


class RedfishVendor(Redfish, Vendor):
    """Ironic's vendor functions for Redfish BMCs: virtual media, event subscriptions."""

    @passthru(
        "POST",
        asynchronous=False,
        description="Eject a virtual media device (boot_device: cd, floppy, usb); all if none",
    )
    def eject_vmedia(self, target: Target, boot_device: str | None = None) -> None:
        """Eject the virtual media of one kind, or all."""
        kinds = {"cd": "cdrom", "dvd": "cdrom", "floppy": "floppy", "usb": "disk"}
        if boot_device is not None and boot_device not in kinds:
            raise InvalidDriverInfo(
                f"boot_device: {boot_device!r} is not one of {', '.join(kinds)}"
            )
        devices = list(MEDIA) if boot_device is None else [kinds[boot_device]]
        virtual_media.eject_now(target, self.bmcs, devices)

    @passthru(
        "POST",
        asynchronous=False,
        description="Have the BMC send events to a URL. Required argument: Destination; optional:"
        " EventTypes, HttpHeaders, Context, Protocol",
    )
    def create_subscription(  # noqa: PLR0917 - these are Redfish's names
        self,
        target: Target,
        Destination: str,  # noqa: N803
        EventTypes: list[str] | None = None,  # noqa: N803
        HttpHeaders: list[object] | None = None,  # noqa: N803
        Context: str = "",  # noqa: N803
        Protocol: str = "Redfish",  # noqa: N803
    ) -> dict[str, Any]:
        """Subscribe a URL to the BMC's events; return the new subscription."""
        _check_subscription(Destination, EventTypes, HttpHeaders, Context, Protocol)
        subscription: dict[str, object] = {
            "Destination": Destination,
            "Protocol": Protocol,
            "Context": Context,
            "EventTypes": ["Alert"] if EventTypes is None else EventTypes,
        }
        if HttpHeaders:
            subscription["HttpHeaders"] = HttpHeaders
        with client.turn(target, self.bmcs) as bmc:
            service = bmc.event_service()
            event_types = {
                event_type.value for event_type in service.get_event_types_for_subscription()
            }
            if EventTypes is not None and not event_types.issuperset(EventTypes):
                raise InvalidDriverInfo(
                    f"EventTypes: {EventTypes!r} are not all among {', '.join(sorted(event_types))}"
                )
            subscriptions = service.subscriptions
            existing_paths = frozenset(subscriptions.members_identities)
            target.before_order()
            answer = bmc.open()._conn.post(subscriptions.path, data=subscription)
            path = answer.headers.get("Location")
            if not path and answer.content:
                path = entry(answer.json(), "@odata.id")
            subscriptions.refresh()
            if not isinstance(path, str):
                path = _new_subscription(subscriptions, existing_paths, subscription)
            return _public(subscriptions.get_member(path))

    @passthru("DELETE", asynchronous=False, description=f"Delete a subscription. {_ID}")
    def delete_subscription(self, target: Target, id: str) -> None:  # noqa: A002
        """
        Delete an event subscription.

        Raises NotFound.
        """
        with client.turn(target, self.bmcs) as bmc:
            subscription = _subscription(bmc, id)
            target.before_order()
            subscription.delete()

    @passthru("GET", asynchronous=False, description="Show the collection of all subscriptions")
    def get_all_subscriptions(self, target: Target) -> dict[str, Any]:
        """Return the BMC's collection of subscriptions."""
        with client.turn(target, self.bmcs) as bmc:
            return dict(bmc.event_service().subscriptions.json)

    @passthru("GET", asynchronous=False, description=f"Show a subscription. {_ID}")
    def get_subscription(self, target: Target, id: str) -> dict[str, Any]:  # noqa: A002
        """
        Return a subscription.

        Raises NotFound.
        """
        with client.turn(target, self.bmcs) as bmc:
            return _public(_subscription(bmc, id))


def _new_subscription(
    subscriptions: "EventDestinationCollection",
    existing_paths: frozenset[str],
    subscription: Mapping[str, object],
) -> str:
    """
    Return the path of a subscription whose BMC does not name what it has created.

    existing_paths: paths of the earlier subscriptions.

    Raises Unconfirmed: no new subscription, or several, are as `subscription`.
    """
    paths = [
        path
        for path in subscriptions.members_identities
        if path not in existing_paths
        and all(
            entry(subscriptions.get_member(path).json, key) == subscription[key]
            for key in ("Destination", "Context")
        )
    ]
    if len(paths) != 1:
        raise Unconfirmed(
            f"POST {subscriptions.path} was ordered, not confirmed: the BMC names no subscription,"
            f" and lists {len(paths)} new ones to {subscription['Destination']}"
        )
    return str(paths[0])


def _subscription(bmc: client.Connection, name: object) -> "EventDestination":
    """
    Return the subscription with an id.

    Raises NotFound.
    Raises InvalidDriverInfo: the id is empty or no text.
    """
    if not isinstance(name, str) or not name:
        raise InvalidDriverInfo(f"id: {name!r} is not the id of a subscription")
    collection = bmc.event_service().subscriptions
    for path in collection.members_identities:
        if last_part(path) == name:
            return collection.get_member(path)
    raise NotFound(f"the BMC has no subscription {name!r}")


def _public(subscription: "EventDestination") -> dict[str, Any]:
    document = subscription.json
    return {name: document[name] for name in _SUBSCRIPTION_FIELDS if name in document}


def _check_subscription(
    destination: object, events: object, headers: object, context: object, protocol: object
) -> None:
    """
    Check the arguments of a new subscription.

    Raises InvalidDriverInfo: names the argument.
    """
    url = urlsplit(destination) if isinstance(destination, str) else None
    if url is None or not (url.scheme and url.hostname) or " " in str(destination):
        raise InvalidDriverInfo(f"Destination: {destination!r} is not a URL with scheme and host")
    if events is not None and not _are_texts(events):
        raise InvalidDriverInfo(f"EventTypes: {events!r} is not a list of texts")
    if headers is not None and not isinstance(headers, list):
        raise InvalidDriverInfo("HttpHeaders: a list of headers is needed")
    for name, value in (("Context", context), ("Protocol", protocol)):
        if not isinstance(value, str):
            raise InvalidDriverInfo(f"{name}: {value!r} is not a text")


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
