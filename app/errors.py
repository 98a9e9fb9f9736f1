"""
Errors that the API answers a request with, as a tree.

A class has its HTTP status, and as its docstring the default message.

ServiceError            500
├─ Invalid              400   body, parameter, patch, driver_info
│  ├─ AgentRefused      400   heartbeat with a wrong token, address or certificate
│  ├─ IllegalMove       400   not possible in this provision state
│  └─ InMaintenance     400
├─ Unauthorized         401
├─ Forbidden            403
│  ├─ NodeProtected     403
│  └─ QuotaReached      403
├─ NotFound             404   one class for all: NotFound("node", ident)
├─ NotAcceptable        406   microversion out of range, or older than the field
├─ Conflict             409
│  ├─ NodeLocked        409
│  ├─ NodeHeld          409
│  └─ AlreadyExists     409   one class for all: AlreadyExists("port", "address", mac)
├─ PreconditionFailed   412   the resource has changed since it was read
├─ TooLarge             413
├─ TooMany              429   requests of this address in the last minute
├─ BadGateway           502   the machine refused the command, or its answer is malformed
├─ Unavailable          503   the database or every conductor is out of reach; try again
└─ GatewayTimeout       504   a conductor or a machine did not answer in time

Defects are not in this tree: the API answers 500 without details, and logs the traceback.
"""

import math


class ServiceError(Exception):
    """The request cannot be served."""

    status = 500  # of HTTP
    retry_after: int | None = None  # seconds, sent as Retry-After, if set

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.__doc__)


class Invalid(ServiceError):
    """The request is not valid."""

    status = 400


class AgentRefused(Invalid):
    """A request of an agent is refused."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause  # key of `app.engine.records.agent_refusals.REMEDIES`


class IllegalMove(Invalid):
    """The node's provision state does not allow this."""

    def __init__(self, verb: str, node: str, state: str, reason: str = "") -> None:
        super().__init__(
            f'The requested action "{verb}" can not be performed on node "{node}" while it is in'
            f' state "{state}"{": " if reason else ""}{reason}.'
        )


#: Verb -> Ironic's name of its operation.
_OPERATION_NAMES = {
    "active": "provisioning", "deploy": "provisioning", "rebuild": "provisioning",
    "rescue": "rescuing", "unrescue": "unrescuing", "clean": "cleaning", "service": "servicing",
}  # fmt: skip


class InMaintenance(Invalid):
    """The node is in maintenance."""

    def __init__(self, verb: str, node: str) -> None:
        super().__init__(
            f"The {_OPERATION_NAMES.get(verb, verb)} operation can't be performed on node {node}"
            " because it's in maintenance mode."
        )


class Unauthorized(ServiceError):
    """The request lacks valid credentials."""

    status = 401

    def __init__(self, message: str, challenge: str | None = None) -> None:
        super().__init__(message)
        self.challenge = challenge  # value of WWW-Authenticate, if it is sent


class Forbidden(ServiceError):
    """This is not allowed."""

    status = 403


class NodeProtected(Forbidden):
    """The node is protected."""

    def __init__(self, node: str) -> None:
        super().__init__(f"Node {node} is protected and cannot be undeployed, rebuilt or deleted.")


class QuotaReached(Forbidden):
    """The quota of a project allows no further node."""

    def __init__(self, project: str, limit: int, leased_nodes: int | None) -> None:
        leases = "" if leased_nodes is None else f": it leases {leased_nodes}, its limit is {limit}"
        super().__init__(
            f"lessee: the quota of project {project} allows no further node{leases}. Return a node,"
            " or ask an administrator of the system for a higher limit."
        )


class NotFound(ServiceError):
    """A resource does not exist; `text` is the message, a format of `kind` and `ident`."""

    status = 404

    def __init__(
        self, kind: str, ident: str, text: str = "{kind} {ident} could not be found."
    ) -> None:
        super().__init__(text.format(kind=f"{kind[0].upper()}{kind[1:]}", ident=ident))


class NotAcceptable(ServiceError):
    """The request needs another API version."""

    status = 406


class Conflict(ServiceError):
    """The request conflicts with the state of the resource."""

    status = 409


class NodeLocked(Conflict):
    """The node is reserved for an operation in progress."""

    retry_after = 2

    def __init__(self, node: str, holder: str) -> None:
        super().__init__(
            f"Node {node} is locked by host {holder}, please retry after the current operation"
            " is completed."
        )
        self.node = node


class NodeHeld(Conflict):
    """The node has a hold that forbids this."""

    def __init__(self, node: str, holds: str) -> None:
        super().__init__(f"Node {node} is held: {holds}.")


#: (kind, field) -> Ironic's message, which clients match on.
_MESSAGES = {
    ("node", "instance_uuid"): "Instance {value} is already associated with a node, it cannot be"
    " associated with this other node.",
    ("port", "address"): "A port with MAC address {value} already exists.",
    ("portgroup", "address"): "A portgroup with MAC address {value} already exists.",
    ("volume target", "boot_index"): "A volume target with boot index '{value}' for the same node"
    " already exists.",
}


class AlreadyExists(Conflict):
    """A resource with this value of a unique field exists already."""

    def __init__(self, kind: str, field: str, value: object) -> None:
        template = _MESSAGES.get(
            (kind, field), "{article} {kind} with {field} {value} already exists."
        )
        article = "An" if kind[0] in "aeio" else "A"  # a user
        field = "UUID" if field == "uuid" else field
        super().__init__(template.format(article=article, kind=kind, field=field, value=value))


class PreconditionFailed(ServiceError):
    """The resource has changed since it was read."""

    status = 412


class TooLarge(ServiceError):
    """The body is too large."""

    status = 413


class TooMany(ServiceError):
    """Too many requests of this address were refused; retry later."""

    status = 429

    def __init__(self, seconds: float, message: str | None = None) -> None:
        super().__init__(message)
        self.retry_after = math.ceil(seconds)


class Unavailable(ServiceError):
    """The service is temporarily unable to do this."""

    status = 503
    retry_after = 5


class BadGateway(ServiceError):
    """The machine refused the command, or its answer is malformed."""

    status = 502


class GatewayTimeout(ServiceError):
    """A conductor or a machine did not answer in time."""

    status = 504
