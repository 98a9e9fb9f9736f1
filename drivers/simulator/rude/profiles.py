"""Profiles: settings of faults that occur together on machines of one kind."""

from collections.abc import Mapping
from typing import Any

PROFILES: dict[str, Mapping[str, Any]] = {
    "dell-like": {
        "task_appears_late": {"reads": 2},
        "location_is_task": True,
        "power_refused_in_transition": {"status": 409, "seconds": 2.0},
        "power_refused_when_there": {"status": 409},
        "delete_apply_time_refused": True,
        "pages": {"size": 50},
        "session_limit": {"most": 6},
    },
    "ami-like": {
        "boot_whole_demanded": True,
        "etag_in_body": True,
        "volume_type_only": True,
        "odd_errors": {"form": "flat"},
    },
    "hpe-like": {
        "redirect_to_slash": True,
        "gzip_unasked": True,
        "boot_fixed_in_post": True,
        "busy": {"share": 0.02, "status": 503, "retry_after": 1},
        "property_missing": {"property": "InstructionSet"},
        "mac_invalid": {"mac": "00:00:00:00:00:00"},
    },
    "supermicro-like": {
        "boot_mode_lost": True,
        "power_state_odd": {"state": "null", "seconds": 1.0},
        "closes_silently": True,
        "media_stale_after_eject": True,
        "not_utf8": 0.1,
    },
    "openbmc-like": {
        "media_slot_without_insert": True,
        "sensors_only": True,
        "power_state_odd": {"state": "PoweringOn", "seconds": 1.0},
        "nvme_attached_directly": True,
    },
    "cisco-like": {
        "media_slot_refuses": {"status": 400},
        "volume_type_only": True,
        "links_absolute": True,
    },
    # deviations that a service can bear, each in a part of the requests
    "rude": {
        "closes_silently": 0.05,
        "answer_cut_short": 0.01,
        "read_lost_after_order": 0.1,
        "answer_lost": 0.05,
        "busy": {"share": 0.02, "retry_after": 1},
        "redirect_to_slash": 0.2,
        "redirect_absolute": 0.1,
        "redirect_orders": 0.2,
        "gzip_unasked": 0.1,
        "not_utf8": 0.05,
        "control_characters": 0.05,
        "links_absolute": 0.1,
        "etag_in_body": True,
        "odd_errors": {"share": 0.5, "form": "html"},
        "sessions_expire": {"share": 0.2, "seconds": 5.0},
        "task_appears_late": {"share": 0.5, "reads": 2},
        "task_deleted_at_end": 0.3,
        "update_shown_late": {"share": 0.5, "seconds": 1.0},
        "power_refused_in_transition": {"share": 0.5, "seconds": 1.0, "status": 409},
        "power_refused_when_there": {"status": 400},
        "power_state_odd": {"share": 0.5, "state": "null", "seconds": 1.0},
        "media_slot_without_insert": True,
        "media_stale_after_eject": 0.5,
        "media_shown_late": {"share": 0.3, "seconds": 0.5},
        "boot_mode_lost": True,
        "pages": {"size": 1},
        "volume_type_only": True,
        "property_missing": {"property": "InstructionSet"},
    },
}
