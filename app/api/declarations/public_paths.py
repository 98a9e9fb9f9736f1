"""Paths that middleware knows: those that need no authentication, and that of streams."""

import re

from app.inventory import event_subscriptions

#: Paths by which browsers sign in and out; they check the credentials themselves.
LOGIN, LOGOUT, OIDC = "/v1/login", "/v1/logout", "/v1/login/oidc"
SCOPE = "/v1/login/scope"
CALLBACK = f"{OIDC}/callback"
LOOKUP, HEARTBEAT, REPORT = "/v1/lookup", "/v1/heartbeat/", "/v1/continue_inspection"
EVENT_STREAM = "/v1/events/stream"
#: A secret in the path is the credential of a BMC.
BMC_EVENTS = event_subscriptions.PATH
#: A ticket in the request is its credential (`app.api.node.console.consoles`).
CONSOLE_STREAM = re.compile(r"/v1/nodes/[^/]*/console/stream")
PUBLIC = (
    "/", "/v1", LOGIN, LOGOUT, SCOPE, OIDC, CALLBACK, LOOKUP, REPORT, "/healthcheck", "/docs",
    "/docs/page.css", "/docs/page.js", "/openapi.json", "/ui",
)  # fmt: skip
PUBLIC_PREFIXES = (HEARTBEAT, BMC_EVENTS, "/ui/")


def is_public(path: str) -> bool:
    """Whether a path needs no authentication; it may end in .json or .xml."""
    bare = path.removesuffix(".json").removesuffix(".xml")
    if path in PUBLIC or bare in PUBLIC or path.startswith(PUBLIC_PREFIXES):
        return True
    return CONSOLE_STREAM.fullmatch(path) is not None


def signs_in(path: str) -> bool:
    """Whether a public path accepts credentials."""
    return path in (LOGIN, LOGOUT, SCOPE, OIDC, CALLBACK)


def is_of_agents(path: str) -> bool:
    """Whether agents send requests to a path."""
    return path in (LOOKUP, REPORT) or path.startswith(HEARTBEAT)


def is_of_bmcs(path: str) -> bool:
    """Whether BMCs send requests to a path."""
    return path.startswith(BMC_EVENTS)


def without_secret(path: str) -> str:
    """Return a path for logs: that of a BMC's events has a secret after the node."""
    if not is_of_bmcs(path):
        return path
    return f"{BMC_EVENTS}{path.removeprefix(BMC_EVENTS).partition('/')[0]}/******"
