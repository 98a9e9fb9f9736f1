"""
The context of a request, which each handler gets as its first argument.

`app.server.application` makes it before anything else. Flask and flask-smorest call hooks, error
handlers and the parser of arguments without it: `current` finds it for them, in the only member of
`flask.g` that the service sets. Handlers, and what they call, get it as an argument instead.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flask import Flask, Request, current_app, g

from app.api.authentication.audit_trail import AuditTrail
from app.api.authentication.strategies import Authenticate
from app.api.declarations.versions import OLDEST, Version
from app.api.feed.followers import Followers
from app.api.policy.access import Access
from app.api.policy.file import Policy
from app.api.policy.list_scope import EVERYTHING, ListScope
from app.api.transport import responses
from app.api.transport.limits import Limits
from app.audit.refused_requests import RefusedRequests
from app.identity.caller import UNAUTHENTICATED, Caller
from app.inventory.bmc_events import Receiver
from app.observe import request_ids
from app.process import tracing
from app.runtime import Runtime

if TYPE_CHECKING:  # installed with a collector only
    from opentelemetry.trace import Span

_SERVICES = "ingot"

# arguments of handlers, and the document of an item in their answers
Query = Mapping[str, Any]
Fields = dict[str, Any]
View = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Services:
    """Objects that the requests of one application share."""

    runtime: Runtime
    #: Without one, every caller may do everything.
    policy: Policy | None
    authenticate: Authenticate
    limits: Limits
    followers: Followers
    #: None if the audit is off.
    refused_requests: RefusedRequests | None
    bmc_events: Receiver

    def install(self, app: Flask) -> None:
        """Make these the services of an application."""
        app.extensions[_SERVICES] = self


def services_of(app: Flask) -> Services:
    """Return the services of an application."""
    services: Services = app.extensions[_SERVICES]
    return services


@dataclass(slots=True)
class RequestContext:
    """Facts about a request besides the request itself."""

    request: Request
    services: Services
    #: A span of OpenTelemetry; None if traces are off.
    span: "Span | None"
    request_id: str
    #: Facts for the audit record.
    audit: AuditTrail
    started: float = field(default_factory=time.perf_counter)
    #: Whether the response says nothing of the version: none was negotiated, or no route was found.
    unrouted: bool = True
    version: Version = OLDEST
    caller: Caller = UNAUTHENTICATED
    #: Rows that the caller may list by the rule of the route.
    scope: ListScope = EVERYTHING
    #: Whether the refusal of an agent's request is recorded already.
    refusal_noted: bool = False

    @property
    def runtime(self) -> Runtime:
        """The runtime of the process."""
        return self.services.runtime

    @property
    def access(self) -> Access:
        """Rights of the caller."""
        return Access(self.services.runtime, self.services.policy, self.caller)

    @property
    def base_url(self) -> str:
        """URL that links start with, without a trailing slash."""
        return responses.base_url(self.services.runtime.settings.api, self.request)

    def links(self, path: str) -> list[dict[str, str]]:
        """Return Ironic's two links to `path`."""
        return responses.links(path, self.base_url)

    def authenticate(self) -> None:
        """Identify the caller. Raises ServiceError: it is unknown."""
        self.caller = self.services.authenticate(self.request, self.audit)

    def renew(self, rule: str) -> None:
        """
        Identify the caller again, and check the rule of a list.

        For a response that takes long: its caller may lose access meanwhile.

        Raises ServiceError: the caller has lost it.
        """
        self.authenticate()
        restricted = self.caller.restricted
        self.scope = self.access.check(rule, None, None, dict) if restricted else EVERYTHING


def begin(request: Request) -> RequestContext:
    """Make the context of a request that begins, before its version and caller are known."""
    span = tracing.begin_request(request.headers.get("Traceparent"))
    request_id = tracing.id_of(span) if span else request_ids.new()
    services = services_of(current_app)
    context = g.context = RequestContext(
        request, services, span, request_id, AuditTrail(request_id)
    )
    return context


def current() -> RequestContext:
    """Return the context of the current request: for callbacks of Flask that do not get it."""
    context: RequestContext = g.context
    return context
