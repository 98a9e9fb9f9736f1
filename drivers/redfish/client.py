"""
Talking to a BMC in Redfish, by sushy.

One connection per BMC is kept between commands, in the governor (`drivers.bmc`), and used only
while its turn is held.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

from drivers.bmc import Bmc, Bmcs, Urgency
from drivers.errors import Busy, InvalidDriverInfo, NotSupported, Refused
from drivers.redfish import parts
from drivers.redfish.errors import NO_ENTRY, errors_of, gap
from drivers.redfish.parts import part
from drivers.redfish.values import text
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
#: What a message of HPE's ends in.
_IN_POST = "UnableToModifyDuringSystemPOST"


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
        return Refused(NO_ENTRY.format(bmc=f"BMC {self.address}", status=status))

    def scrub(self, text: str) -> str:
        return text.replace(self.password, "******") if self.password else text


def access(target: Target) -> Access:
    """Read driver_info. Raises InvalidDriverInfo that names the field."""
    info = target.driver_info
    address = str(target.need("redfish_address")).rstrip("/")
    if "://" not in address:
        address = f"https://{address}"
    if not _is_of_bmc(address):
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


def _is_of_bmc(address: str) -> bool:
    try:
        url = urlsplit(address)
    except ValueError:
        return False
    return url.scheme in ("http", "https") and bool(url.netloc) and not url.path


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
        """
        Set boot options: `target`, `enabled`, `mode`, in Redfish's words; `http_boot_uri`.

        Raises what `turn` does, and Busy while the machine is in POST (HPE).
        """
        import sushy
        from sushy import exceptions as theirs

        kinds = {
            "target": sushy.BootSource,
            "enabled": sushy.BootSourceOverrideEnabled,
            "mode": sushy.BootSourceOverrideMode,
        }
        options = {name: kinds.get(name, str)(value) for name, value in values.items()}
        system = self.system(fresh=False)
        with errors_of(self.access):
            try:
                system.set_system_boot_options(**options)
            except theirs.BadRequestError as error:
                if _IN_POST in str(error):
                    raise Busy(f"BMC {self.access.address} refused: {_IN_POST}") from None
                raise
        system.invalidate()

    def gap(self, path: str) -> AbstractContextManager[None]:
        """Go on after this block when the BMC lacks `path` or serves it malformed; see `errors`."""
        return gap(self.access, path)

    def drives(self, wanted: Collection[str] = ("CD", "DVD")) -> Iterator[Any]:
        """
        Virtual drives of these MediaTypes, read now: the system's own, else its managers'.

        Raises NotSupported when none of them has virtual media.
        """
        system, found = self.system(fresh=False), False
        for owner in chain([system], parts.managers(self, system)):
            if parts.link(owner, "virtual_media") is None:
                continue
            found = True
            for drive in parts.members(self, owner, "virtual_media"):
                kinds = {kind.value for kind in drive.media_types or ()}
                if kinds.intersection(wanted):
                    yield drive
            if owner is system:
                return
        if not found:
            raise NotSupported(f"BMC {self.access.address} has no virtual media")

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

    def event_service(self) -> Any:
        """sushy's EventService of the BMC. Raises NotSupported."""
        from sushy import exceptions as theirs

        try:
            return self.open().get_event_service()
        except theirs.MissingAttributeError:
            raise NotSupported(f"BMC {self.access.address} has no event service") from None

    def lights(self) -> dict[tuple[str, str], Any]:
        """(component, name) -> what has a light: sushy's system, its chassis, its drives."""
        system = self.system(fresh=True)
        named = [("system", "led", system)]
        named += [("chassis", each.identity, each) for each in parts.chassis(self, system)]
        named += [("disk", each.identity, each) for each in parts.drives(self, system)]
        return {
            (component, name): each
            for component, name, each in named
            if text(name) and each.indicator_led is not None
        }

    def change_volumes(
        self, method: str, path: str, body: Mapping[str, Any], apply: str | None
    ) -> str | None:
        """
        Create (POST) or delete a volume; the path at which the BMC tells of its progress, if it is
        a task. apply: the OperationApplyTime. sushy's own would wait for it, `Immediate` or not.
        """
        from sushy.taskmonitor import TaskMonitor

        connector = self.open()._conn
        document = {**body, **({"@Redfish.OperationApplyTime": apply} if apply else {})}
        send = connector.post if method == "POST" else connector.delete
        answer = send(path, data=document or None)
        if answer.status_code != HTTPStatus.ACCEPTED:
            return None
        return str(TaskMonitor.from_response(connector, answer, path).task_monitor_uri)

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
        """sushy's system; `fresh` reads it again. Use inside `turn` only."""
        root = self.open()
        if self._system is None:
            self._system = root.get_system(self.path)
            self.path = self._system.path
        elif fresh:
            self._system.invalidate()
        # not forced: what was read of its parts is read again when it is next asked for
        self._system.refresh(force=False)
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
