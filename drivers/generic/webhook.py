"""
Power by webhooks: smart plugs, power strips and any other switch that answers HTTP.

An order is a signed POST to the URL of its power state; a signed GET of a third URL reads the
state. docs/machines-without-bmc.md describes requests and answers.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson

from drivers.core.errors import (
    Busy,
    InvalidDriverInfo,
    LoginRefused,
    NotSupported,
    Refused,
    Unconfirmed,
    Unexpected,
    Unreachable,
)
from drivers.core.interface_kinds import POWER_OFF, POWER_ON, REBOOT, Power
from drivers.core.target import Target
from drivers.net import answers, networks, signed, urls

SECRET = "webhook_power_secret"
STATE_URL = "webhook_power_state_url"
#: Ordered power state -> key of driver_info with its URL.
_URLS: Mapping[str, str] = {POWER_ON: "webhook_power_on_url", POWER_OFF: "webhook_power_off_url"}
#: Value of `power` in requests and answers -> power state.
_STATES: Mapping[str, str] = {"on": POWER_ON, "off": POWER_OFF}
_WORDS = {state: word for word, state in _STATES.items()}
_SHORTEST_SECRET, _LONGEST_SECRET = 16, 255
#: Statuses of a refusal that ends by itself.
_TEMPORARY = frozenset({409, 423, 425, 429, 503})


class WebhookPower(Power):
    """Power by requests to the URLs of a node."""

    name = "webhook"
    supported = (POWER_ON, POWER_OFF, REBOOT)
    properties = {
        "webhook_power_on_url": "URL to which a POST switches the machine on. Required.",
        "webhook_power_off_url": "URL to which a POST switches the machine off. Required.",
        "webhook_power_state_url": "URL of which a GET answers the power state. Required.",
        "webhook_power_secret": "key of the signatures of all requests, 16 to 255 characters."
        " Required.",
    }

    def validate(self, target: Target) -> None:
        for name in (*_URLS.values(), STATE_URL):
            _url(target, name)
        _secret(target)

    def get_power_state(self, target: Target) -> str:
        status, body = self._exchange(target, STATE_URL)
        shown_url = urls.redacted(_url(target, STATE_URL))
        if status != 200:
            raise _refusal(status, shown_url)
        document = answers.parsed(shown_url, body)
        power = document.get("power") if isinstance(document, Mapping) else None
        if not isinstance(power, str) or power not in _STATES:
            raise Unexpected(
                f'{shown_url} did not answer {{"power": "on"}} or {{"power": "off"}}:'
                f" {body[:100].decode(errors='replace')!r}"
            )
        return _STATES[power]

    def order(self, target: Target, state: str) -> None:
        if state not in _URLS:
            raise NotSupported(f"power_interface: a webhook cannot do {state!r} in one request")
        document = {"node": target.uuid, "name": target.name, "power": _WORDS[state]}
        status, _ = self._exchange(target, _URLS[state], orjson.dumps(document))
        shown_url = urls.redacted(_url(target, _URLS[state]))
        if status >= 500 and status not in _TEMPORARY:
            raise Unconfirmed(f"{shown_url} answered {status}, and may have done it")
        if not 200 <= status < 300:
            raise _refusal(status, shown_url)

    def _exchange(self, target: Target, name: str, body: bytes | None = None) -> tuple[int, bytes]:
        """
        Send a request to the URL in a key of driver_info, in the turn of its server.

        One without a body is a read: it is sent once more if it is not answered.
        """
        url, secret = _url(target, name), _secret(target)
        timeout = float(target.options["webhooks"]["timeout"])
        with self.bmcs.turn(urlsplit(url).netloc):
            field = f"driver_info/{name}"
            send = partial(signed.exchange, target.options, field, url, secret, timeout, body=body)
            try:
                return send()
            except Unreachable:
                if body is not None:
                    raise
                return send()


def _url(target: Target, name: str) -> str:
    """
    Return a URL of driver_info.

    Raises InvalidDriverInfo: it is missing, no http or https URL, has a user or a password, or
    leads to a network that a setting refuses.
    """
    field = f"driver_info/{name}"
    url = urls.checked(target.need(name), field)
    if "@" in urlsplit(url).netloc:
        raise InvalidDriverInfo(
            f"{field}: must be a URL without a user and a password; requests are signed instead"
        )
    networks.of_urls(target.options, field).check_url(url)
    return url


def _secret(target: Target) -> str:
    """
    Return the key of the signatures. Errors omit it.

    Raises InvalidDriverInfo: it is missing, too short or too long.
    """
    secret: Any = target.need(SECRET)
    if isinstance(secret, int) and not isinstance(secret, bool):
        secret = str(secret)  # OpenStack's client sends digits as a number
    if not isinstance(secret, str) or not _SHORTEST_SECRET <= len(secret) <= _LONGEST_SECRET:
        raise InvalidDriverInfo(
            f"driver_info/{SECRET}: must be a text of {_SHORTEST_SECRET} to {_LONGEST_SECRET}"
            " characters"
        )
    return secret


def _refusal(status: int, shown_url: str) -> Refused | Unexpected:
    words = f"{shown_url} answered {status}"
    if 300 <= status < 400:
        return Refused(f"{words}: redirects are not followed")
    if status in _TEMPORARY:
        return Busy(words)
    if status in (401, 403):
        return LoginRefused(f"{words}: it does not accept driver_info/{SECRET}")
    return Refused(words) if 400 <= status < 500 else Unexpected(words)
