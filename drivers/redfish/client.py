"""
Talking to a BMC in Redfish; the only file that knows sushy.

One connection per BMC is kept between commands, in the governor (`drivers.bmc`), and used only
while its turn is held. sushy's errors become ours here: no answer is Unreachable, a refusal is
Refused with the BMC's words, a missing feature NotSupported, nonsense Unexpected.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from drivers.bmc import Bmc, Bmcs, Urgency
from drivers.errors import InvalidDriverInfo, NotSupported, Refused, Unexpected, Unreachable
from drivers.target import Target
from drivers.tls import file, trust

PROPERTIES = {
    "redfish_address": "URL of the BMC, such as https://192.0.2.10. Required.",
    "redfish_system_id": "Path of the system, such as /redfish/v1/Systems/1. Required only when"
    " the BMC serves more than one.",
    "redfish_username": "User of the BMC",
    "redfish_password": "Password of that user",
    "redfish_verify_ca": "true (default: [redfish]verify_ca, else the system's authorities), false,"
    " or the path of the authorities to trust",
    "redfish_auth_type": "auto (default: session, else basic), session, or basic",
}
#: TaskStates of a task that has not ended.
_UNDER_WAY = frozenset(
    {"New", "Starting", "Running", "Suspended", "Interrupted", "Pending", "Stopping", "Service",
     "Cancelling"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a system and who we are there, as driver_info says."""

    address: str
    system: str | None
    username: str | None
    password: str | None
    verify: bool | str
    auth: str
    connect_timeout: float
    read_timeout: float

    @property
    def key(self) -> str:
        """Names the BMC for the governor: each system of a chassis has a processor of its own."""
        return f"{self.address}{self.system or ''}"

    def no_entry(self, status: int) -> Refused:
        who = "driver_info/redfish_username and redfish_password"
        return Refused(f"BMC {self.address} does not accept {who} ({status})")

    def scrub(self, text: str) -> str:
        return text.replace(self.password, "******") if self.password else text


def access(target: Target) -> Access:
    """Read driver_info. Raises InvalidDriverInfo that names the field."""
    info = target.driver_info
    address = str(target.need("redfish_address")).rstrip("/")
    if "://" not in address:
        address = f"https://{address}"
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path:
        raise InvalidDriverInfo(
            f"driver_info/redfish_address: {info['redfish_address']!r} is not the URL of a BMC"
        )
    system = info.get("redfish_system_id") or None
    if system is not None and not (isinstance(system, str) and system.startswith("/")):
        raise InvalidDriverInfo(
            f"driver_info/redfish_system_id: {system!r} is no path such as /redfish/v1/Systems/1"
        )
    auth = info.get("redfish_auth_type") or target.options["redfish"]["auth_type"]
    if auth not in ("auto", "session", "basic"):
        raise InvalidDriverInfo(
            f"driver_info/redfish_auth_type: {auth!r} is none of auto, session, basic"
        )
    username, password = info.get("redfish_username"), info.get("redfish_password")
    if password and not username:
        raise InvalidDriverInfo("driver_info/redfish_username is missing beside redfish_password")
    if auth == "session" and not username:
        raise InvalidDriverInfo("driver_info/redfish_username is required for session auth")
    options, verify = target.options["redfish"], trust(info.get("redfish_verify_ca", True))
    return Access(
        address,
        system.rstrip("/") if system else None,
        str(username) if username else None,
        str(password or "") if username else None,
        trust(options["verify_ca"] or True) if verify is True else verify,
        auth,
        float(options["connect_timeout"]),
        float(options["read_timeout"]),
    )


class Connection:
    """What is kept of one BMC: sushy's root and system, opened when first needed."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.path = access.system
        self._root: Any = None
        self._system: Any = None

    @property
    def token(self) -> str | None:
        """The token of the kept session, if there is one."""
        auth = getattr(self._root, "_auth", None)
        key = getattr(auth, "get_session_key", lambda: None)()
        return str(key) if key else None

    def open(self) -> Any:
        """sushy's root of this BMC, logged in."""
        if self._root is None:
            with errors_of(self.access):
                self._root = _login(self.access)
        return self._root

    def close(self) -> None:
        """Forget the session: the next command logs in again."""
        self._root = self._system = None

    def set_boot(self, **values: str) -> None:
        """Set boot options: `target`, `enabled`, `mode`, in Redfish's words; `http_boot_uri`."""
        import sushy

        kinds = {
            "target": sushy.BootSource,
            "enabled": sushy.BootSourceOverrideEnabled,
            "mode": sushy.BootSourceOverrideMode,
        }
        options = {name: kinds.get(name, str)(value) for name, value in values.items()}
        self.system(fresh=False).set_system_boot_options(**options)
        self._system.invalidate()

    def drives(self, wanted: Collection[str] = ("CD", "DVD")) -> Iterator[Any]:
        """Virtual drives of these MediaTypes, read anew: the system's own, else its managers'."""
        from sushy import exceptions as theirs

        system = self.system(fresh=False)
        try:
            collections = [system.virtual_media]
        except theirs.MissingAttributeError:
            collections = [manager.virtual_media for manager in system.managers]
        for collection in collections:
            for drive in collection.get_members():
                kinds = {kind.value for kind in drive.media_types or ()}
                if kinds.intersection(wanted):
                    drive.refresh(force=True)
                    yield drive

    def secure_boot(self) -> Any:
        """sushy's SecureBoot of the system, read anew. Raises NotSupported."""
        resource = part(self.system(fresh=False), "secure_boot")
        resource.refresh(force=True)
        return resource

    def bios(self) -> Any:
        """sushy's Bios of the system, read anew. Raises NotSupported."""
        resource = part(self.system(fresh=False), "bios")
        resource.refresh(force=True)
        return resource

    def lights(self) -> dict[tuple[str, str], Any]:
        """(component, name) -> what has a light: sushy's system, its chassis, its drives."""
        system = self.system(fresh=True)
        found: dict[tuple[str, str], Any] = {}
        if system.indicator_led is not None:
            found["system", "led"] = system
        for chassis in system.chassis:
            if chassis.indicator_led is not None:
                found["chassis", chassis.identity] = chassis
        try:
            storages = part(system, "storage").get_members()
        except NotSupported:
            storages = []
        for storage in storages:
            for drive in storage.drives:
                if drive.indicator_led is not None:
                    found["disk", drive.identity] = drive
        return found

    def firmware(self) -> list[dict[str, Any]]:
        """What the machine tells of its firmware, as `target.report(firmware=...)` takes it."""
        system = self.system(fresh=True)
        made = {"vendor": system.manufacturer, "model": system.model}
        found = [
            {
                "component": "bios",
                "current_version": system.bios_version,
                "serial_number": system.serial_number,
                **made,
            }
        ]
        for manager in system.managers[:1]:
            manager.refresh(force=True)
            found.append(
                {
                    "component": "bmc",
                    "current_version": manager.firmware_version,
                    "vendor": system.manufacturer,
                    "model": manager.model,
                }
            )
        return found

    def update_firmware(self, component: str, url: str) -> str:
        """Order an update from a URL; the path at which the BMC tells of its progress."""
        service = self.open().get_update_service()
        protocol = urlsplit(url).scheme.upper()
        parts = [
            each.path
            for each in service.firmware_inventory.get_members()
            if component in each.identity.lower()
        ]
        monitor = service.simple_update(url, targets=parts[:1], transfer_protocol=protocol)
        return str(monitor.task_monitor_uri)

    def tasks(self) -> list[str]:
        """The paths of the BMC's tasks; none for a BMC that does not tell of any."""
        from sushy import exceptions as theirs

        try:
            found = self.open().get_task_service().tasks
            found.refresh(force=True)
        except (theirs.MissingAttributeError, theirs.ResourceNotFoundError):
            return []
        return list(found.members_identities)

    def task_failure(self, path: str) -> str | None:
        """
        "" while a task of the BMC runs, None when it has ended well, else why it failed.

        A task that the BMC has forgotten has ended.
        """
        from sushy import exceptions as theirs

        try:
            monitor = self.open().get_task_monitor(path)
            if monitor.check_is_processing:
                return ""
            task = monitor.get_task()
        except theirs.ResourceNotFoundError:
            return None
        state = getattr(task.task_state, "value", task.task_state)
        if state in _UNDER_WAY:
            return ""
        if state == "Completed":
            return None
        said = "; ".join(str(each.message) for each in task.messages or ())
        return f"task {state}: {said}" if said else f"task {state}"

    def system(self, *, fresh: bool) -> Any:
        """sushy's system; `fresh` reads it anew. Use inside `turn` only."""
        root = self.open()
        if self._system is None:
            self._system = root.get_system(self.path)
            self.path = self._system.path
        elif fresh:
            self._system.refresh(force=True)
        return self._system


def connection(bmc: Bmc, wanted: Access) -> Connection:
    """The kept connection of a BMC, or a new one when there is none or driver_info has changed."""
    if not isinstance(bmc.connection, Connection) or bmc.connection.access != wanted:
        bmc.connection = Connection(wanted)
    return bmc.connection


@contextmanager
def turn(target: Target, bmcs: Bmcs, urgency: Urgency = Urgency.ORDER) -> Iterator[Connection]:
    """Have a node's BMC to oneself for one command. Raises HardwareErrors only."""
    wanted = access(target)
    with bmcs.turn(wanted.key, urgency) as bmc, errors_of(wanted):
        yield connection(bmc, wanted)


def _login(wanted: Access) -> Any:
    import sushy  # takes half a second, and only conductors need it
    from sushy import auth

    class NoLogin(auth.AuthBase):
        def _do_authenticate(self) -> None:
            """This BMC asks nobody who they are."""

        def can_refresh_session(self) -> bool:
            return False

    login: Any
    if wanted.username is None:
        login = NoLogin()
    elif wanted.auth == "basic":
        login = auth.BasicAuth(wanted.username, wanted.password)
    else:
        kind = auth.SessionAuth if wanted.auth == "session" else auth.SessionOrBasicAuth
        login = kind(wanted.username, wanted.password)
        # sushy logs out when it is collected, even from a BMC that does not answer; BMCs end
        # idle sessions themselves
        login.close = lambda: None
    return sushy.Sushy(
        wanted.address,
        auth=login,
        verify=file(wanted.verify) if isinstance(wanted.verify, str) else wanted.verify,
        connect_timeout=wanted.connect_timeout,
        read_timeout=wanted.read_timeout,
        # sushy repeats orders whose answer was lost, and sleeps meanwhile: one try each
        server_side_retries=1,
        server_side_retries_delay=1,
    )


@contextmanager
def errors_of(wanted: Access) -> Iterator[None]:
    from sushy import exceptions as theirs

    name = f"BMC {wanted.address}"
    try:
        yield
    except theirs.ConnectionError as error:
        cause = error.__context__ or error
        raise Unreachable(f"{name} did not answer ({type(cause).__name__})") from None
    except theirs.AccessError as error:
        raise wanted.no_entry(error.status_code) from None
    except theirs.ServerSideError as error:
        raise Unexpected(wanted.scrub(f"{name} failed: {_words(error)}")) from None
    except theirs.ResourceNotFoundError as error:
        raise Refused(wanted.scrub(f"{name}: {error}")) from None
    except theirs.HTTPError as error:
        raise Refused(wanted.scrub(f"{name} refused: {_words(error)}")) from None
    except (theirs.MissingActionError, theirs.InvalidParameterValueError) as error:
        raise NotSupported(wanted.scrub(f"{name}: {error}")) from None
    except OSError as error:  # from the file of authorities: sushy wraps those of the network
        raise InvalidDriverInfo(f"driver_info/redfish_verify_ca: {error}") from None
    except (theirs.SushyError, ValueError, TypeError, KeyError, AttributeError) as error:
        # the latter four are what sushy stumbles over in documents that are not as they should be
        raise Unexpected(wanted.scrub(f"{name} answered nonsense: {error}")) from error


def part(system: Any, name: str) -> Any:
    """A part of the system that not every one has. Raises NotSupported."""
    from sushy import exceptions as theirs

    try:
        return getattr(system, name)
    except theirs.MissingAttributeError:
        raise NotSupported(f"the system {system.path} has no {name.replace('_', ' ')}") from None


def _words(error: Any) -> str:
    """The BMC's own words, with the status."""
    return f"{error.status_code}: {error.detail or error.code}"
