"""What comes in about the management of a machine."""

from typing import Any
from urllib.parse import urlsplit

from marshmallow import Schema, ValidationError, fields, validates

from app.api.schemas.common import Document, FieldsQuery, Flag, Text, Words
from app.engine.management import BOOT_MODES, DEVICE_TYPES

BOOT_DEVICES = (
    "pxe", "disk", "cdrom", "bios", "safe", "wanboot", "iscsiboot", "floppy", "uefihttp",
)  # fmt: skip
INDICATOR_STATES = ("on", "off", "blinking", "unknown")
IMAGE_SCHEMES = ("http", "https", "nfs", "cifs")


class BootDevice(Schema):
    """What to boot from."""

    boot_device = Text(required=True, choices=BOOT_DEVICES)
    persistent = Flag(
        load_default=False, allow_none=True, metadata={"description": "Not only at the next start"}
    )


class IndicatorState(Schema):
    """What a light does."""

    state = Text(required=True, choices=INDICATOR_STATES)


class BootModeTarget(Schema):
    """A boot mode."""

    target = Text(required=True, choices=BOOT_MODES)


class SecureBootTarget(Schema):
    """Whether only signed systems boot."""

    target = Flag(required=True)


class ConsoleTarget(Schema):
    """Whether the console can be reached."""

    enabled = Flag(required=True, allow_none=True, metadata={"description": "null: no"})


class RaidTarget(Schema):
    """A RAID configuration; nothing in it when none is wanted."""

    logical_disks = fields.List(Document(), allow_none=True)


class VirtualMedium(Schema):
    """An image to show to a machine."""

    device_type = Text(required=True, choices=DEVICE_TYPES)
    image_url = Text(4096, shortest=1, required=True)
    image_download_source = Text(
        choices=("http", "local"),
        metadata={"description": "Accepted for clients' sake: the BMC fetches the image itself"},
    )

    @validates("image_url")
    def _url(self, value: str, **_kwargs: Any) -> None:
        parts = urlsplit(value)
        if parts.scheme not in IMAGE_SCHEMES or not parts.netloc:
            raise ValidationError(f"Must be a URL of {', '.join(IMAGE_SCHEMES)}.")


class DeviceTypes(Schema):
    """Which media to take out."""

    device_types = Words(metadata={"description": "cdrom, disk, floppy; all when missing"})

    @validates("device_types")
    def _known(self, value: list[str], **_kwargs: Any) -> None:
        for each in value:
            if each not in DEVICE_TYPES:
                raise ValidationError(f"{each!r} is not one of {', '.join(DEVICE_TYPES)}.")


class SettingsQuery(FieldsQuery):
    """How to list BIOS settings."""

    detail = Flag(metadata={"description": "Show what the BMC's registry says of them"})
