"""Request schemas of the management of machines: boot, indicators, console, virtual media."""

from urllib.parse import urlsplit

from marshmallow import Schema, ValidationError, fields, validates

from app.api.values.value_types import CommaSeparated, Document, FieldsQuery, Flag, Text
from app.engine.management import BOOT_MODES, DEVICE_TYPES

BOOT_DEVICES = (
    "pxe", "disk", "cdrom", "bios", "safe", "wanboot", "iscsiboot", "floppy", "uefihttp",
)  # fmt: skip
INDICATOR_STATES = ("on", "off", "blinking", "unknown")
IMAGE_SCHEMES = ("http", "https", "nfs", "cifs")


class BootDevice(Schema):
    boot_device = Text(required=True, choices=BOOT_DEVICES)
    persistent = Flag(
        load_default=False,
        allow_none=True,
        metadata={"description": "false: for the next boot only"},
    )


class IndicatorState(Schema):
    state = Text(required=True, choices=INDICATOR_STATES)


class BootModeTarget(Schema):
    target = Text(required=True, choices=BOOT_MODES)


class SecureBootTarget(Schema):
    target = Flag(required=True)


class ConsoleTarget(Schema):
    enabled = Flag(required=True, allow_none=True, metadata={"description": "null: false"})


class RaidTarget(Schema):
    """Target RAID configuration; an empty object removes it."""

    logical_disks = fields.List(Document(), allow_none=True)


class VirtualMedium(Schema):
    """Image to attach as virtual media."""

    device_type = Text(required=True, choices=DEVICE_TYPES)
    image_url = Text(4096, shortest=1, required=True)
    image_download_source = Text(
        choices=("http", "local"),
        metadata={"description": "Accepted for compatibility, and ignored: the BMC downloads it"},
    )

    @validates("image_url")
    def _url(self, value: str, **_kwargs: object) -> None:
        parts = urlsplit(value)
        if parts.scheme not in IMAGE_SCHEMES or not parts.netloc:
            raise ValidationError(f"Must be a URL of {', '.join(IMAGE_SCHEMES)}.")


class DeviceTypes(Schema):
    """Virtual media to detach."""

    device_types = CommaSeparated(metadata={"description": "cdrom, disk, floppy; default: all"})

    @validates("device_types")
    def _known(self, value: list[str], **_kwargs: object) -> None:
        for device_type in value:
            if device_type not in DEVICE_TYPES:
                raise ValidationError(f"{device_type!r} is not one of {', '.join(DEVICE_TYPES)}.")


class SettingsQuery(FieldsQuery):
    detail = Flag(metadata={"description": "Show their attributes from the BMC's registry"})
