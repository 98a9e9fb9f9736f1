"""
Redfish commands to a BMC, by sushy.

The governor (`drivers.core.bmc`) keeps one connection per BMC between commands. It is used only
while the BMC's turn is held.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drivers.core.bmc import Bmc, Bmcs, Urgency
from drivers.core.errors import HardwareError, NotSupported
from drivers.core.password_rotation import require_settled
from drivers.core.target import Target
from drivers.redfish.transport import navigation
from drivers.redfish.transport.access import PASSWORD, Access, access
from drivers.redfish.transport.conversions import text
from drivers.redfish.transport.errors import errors_of
from drivers.redfish.transport.navigation import part
from drivers.redfish.transport.session import Session

if TYPE_CHECKING:
    from sushy.resources.base import ResourceBase
    from sushy.resources.eventservice.eventservice import EventService
    from sushy.resources.system.secure_boot import SecureBoot

    from drivers.redfish.transport.connector import BmcResponse


#: Longest pause that a BMC may ask for, in seconds.
_LONGEST_PAUSE = 600.0


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer of a BMC."""

    status: int  # of HTTP
    document: object  # JSON; None if there is none, or it is malformed
    location: str | None = None
    is_empty: bool = False
    retry_after: float = 0.0  # seconds; 0: not given


def reply(response: "BmcResponse") -> Reply:
    """Convert a response of `requests`."""
    body = response.content or b""
    document = None
    if body:
        with suppress(ValueError, RecursionError, HardwareError):  # malformed
            document = response.json()
    pause = response.headers.get("Retry-After", "")
    return Reply(
        response.status_code,
        document,
        response.headers.get("Location"),
        not body.strip(),
        min(float(pause), _LONGEST_PAUSE) if pause.isdecimal() else 0.0,
    )


class Connection(Session):
    """Session with a BMC, and the commands to it."""

    #: documents with readings of sensors, see `drivers.redfish.sensor_sweep`; None: not searched
    sensor_plan: object = None

    def set_boot(self, **values: str) -> None:
        """
        Set boot options: `target`, `enabled`, `mode` (values of Redfish), `http_boot_uri`.

        Raises HardwareError.
        """
        import sushy

        kinds = {
            "target": sushy.BootSource,
            "enabled": sushy.BootSourceOverrideEnabled,
            "mode": sushy.BootSourceOverrideMode,
        }
        options = {name: kinds.get(name, str)(value) for name, value in values.items()}
        system = self.system(fresh=False)
        with errors_of(self.access):
            system.set_system_boot_options(**options)
        system.invalidate()

    def secure_boot(self) -> "SecureBoot":
        """
        Read the system's SecureBoot resource.

        Raises NotSupported: the system has no such resource.
        """
        resource = part(self.system(fresh=False), "secure_boot")
        resource.refresh(force=True)
        return resource

    def event_service(self) -> "EventService":
        """
        Return the BMC's EventService resource.

        Raises NotSupported: the BMC has no such resource.
        """
        from sushy import exceptions as theirs

        try:
            return self.open().get_event_service()
        except theirs.MissingAttributeError:
            raise NotSupported(f"BMC {self.access.address} has no event service") from None

    def indicators(self) -> dict[tuple[str, str], "ResourceBase"]:
        """Return the resources that have an indicator LED, by (component, name)."""
        system = self.system(fresh=True)
        indicators = [("system", "led", system)]
        indicators += [
            ("chassis", chassis.identity, chassis) for chassis in navigation.chassis(self, system)
        ]
        indicators += [("disk", drive.identity, drive) for drive in navigation.drives(self, system)]
        return {
            (component, name): component_resource
            for component, name, component_resource in indicators
            if text(name) and component_resource.indicator_led is not None
        }

    def get(self, path: str) -> Reply:
        """
        Read a document; an error of the BMC is a reply with its status.

        Raises HardwareError: no answer, or the login is refused.
        """
        return self._exchange("get", path)

    def order(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        etag: str | None = None,
        *,
        log_in_again: bool = True,
    ) -> Reply:
        """
        Send an order once; an error of the BMC is a reply with its status.

        method: POST, PATCH or DELETE. sushy's own methods would wait for the end of the task.
        log_in_again: log in and repeat it if the BMC has ended the session.

        Raises Unconfirmed: it was sent, and its answer was lost.
        Raises HardwareError: it was not sent.
        """
        request_options: dict[str, object] = {"etag": etag} if method == "PATCH" else {}
        if not log_in_again:
            request_options["allow_reauth"] = False
        return self._exchange(method.lower(), path, data=body, **request_options)

    def answer(self, method: str, path: str, **options: object) -> "BmcResponse":
        """
        Send a request of a login once; return the response of `requests`, also a refusal.

        Raises HardwareError: no answer.
        """
        return self._response(method, path, (), allow_reauth=False, **options)

    def _exchange(self, method: str, path: str, **options: object) -> Reply:
        from sushy.exceptions import AccessError

        return reply(self._response(method, path, (AccessError,), **options))

    def _response(
        self, method: str, path: str, refusals: tuple[type[Exception], ...], **options: object
    ) -> "BmcResponse":
        """refusals: errors of sushy after an answer that are raised, and are no response."""
        from sushy import exceptions as theirs

        connector = self.open()._conn
        responses: list[BmcResponse] = []

        def keep(response: "BmcResponse", **_options: object) -> None:
            responses.append(response)

        hooks = connector._session.hooks["response"]
        hooks.append(keep)
        try:
            with errors_of(self.access):
                try:
                    # sushy itself would repeat a read, and orders that some errors refuse
                    getattr(connector, method)(path, server_side_retries_left=0, **options)
                except (theirs.ConnectionError, *refusals, HardwareError):
                    raise
                except Exception:  # of a status above 399; its body may have any form
                    if not responses:
                        raise
        finally:
            hooks.remove(keep)
        return responses[-1]


def connection(
    bmc: Bmc, bmc_access: Access, record: Callable[[dict[str, object]], None] | None = None
) -> Connection:
    """
    Return the BMC's kept connection, for one command.

    Make a new one at first, or if driver_info has changed. record: see `Target.record_exchange`.
    """
    if not isinstance(bmc.connection, Connection) or bmc.connection.access != bmc_access:
        bmc.connection = Connection(bmc_access)
    bmc.connection.command.begin(record)
    return bmc.connection


@contextmanager
def turn(target: Target, bmcs: Bmcs, urgency: Urgency = Urgency.ORDER) -> Iterator[Connection]:
    """
    Hold the turn of a node's BMC for one command.

    Raises PasswordUnsettled, and sends nothing, while the BMC's password is being changed.
    Raises HardwareError, and no other error. Raises Unreachable, other than Unconfirmed: no order
    was sent, or the last one was not.
    """
    require_settled(target, PASSWORD)
    bmc_access = access(target)
    with bmcs.turn(bmc_access.key, urgency) as bmc:
        session = connection(bmc, bmc_access, target.record_exchange)
        with session.command.judged(), errors_of(bmc_access):
            yield session
