"""
Power events for Nova: the power state of machines with an instance.

Nova's periodic comparison would otherwise switch an instance back to the state that Nova has
recorded. `POST /os-server-external-events`, microversion 2.76.

Errors: Unreachable (no answer), InvalidDriverInfo (settings of [nova]), Refused (a status of Nova
or Keystone), Unexpected (5xx, malformed answer). The import takes half a second, as that of
`keystone`.
"""

from collections.abc import Mapping
from typing import Any

from drivers.core.errors import Refused, Unexpected
from drivers.core.interface_kinds import POWER_OFF, POWER_ON
from drivers.net import keystone

#: The first version with power events.
VERSION = "2.76"
#: Power state of a machine -> its tag in an event; Nova knows no others.
TAGS: Mapping[str, str] = {POWER_ON: "POWER_ON", POWER_OFF: "POWER_OFF"}


def send(options: Mapping[str, Any], states: Mapping[str, str]) -> dict[str, int]:
    """
    Report power states. options: the settings of [nova]. states: instance UUID -> power state.

    Returns the instances that Nova did not take, each with its status: 404, it has no such
    instance; 422, the instance has no host yet.
    """
    events = [
        {"name": "power-update", "server_uuid": instance, "tag": TAGS[state]}
        for instance, state in states.items()
    ]
    with (
        keystone.adapter(options, "nova", "compute") as nova,
        keystone.translated("Nova", "nova"),
    ):
        answer = nova.request(
            "/os-server-external-events", "POST", microversion=VERSION, raise_exc=False,
            json={"events": events},
        )  # fmt: skip
    try:
        document = answer.json() if answer.content else {}
    except ValueError:
        document = None
    if answer.status_code == 404 and isinstance(document, dict) and "itemNotFound" in document:
        return dict.fromkeys(states, 404)  # it has none of them
    if answer.status_code >= 500:
        raise Unexpected(f"Nova answered {answer.status_code} {answer.reason}")
    if not answer.ok:
        raise Refused(f"Nova answered {answer.status_code} {answer.reason}")
    results = document.get("events") if isinstance(document, dict) else None
    if not isinstance(results, list):
        raise Unexpected("Nova did not answer with a list of events")
    return {
        str(event["server_uuid"]): int(event["code"])
        for event in results
        if isinstance(event, dict) and "server_uuid" in event and event.get("code", 200) >= 400
    }
