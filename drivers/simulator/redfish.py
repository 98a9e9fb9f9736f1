"""
Redfish service of one simulated machine: authentication, documents and actions.

Only actions change the machine; each is logged. The BMC's faults (latency, errors, cut connections)
are applied here.
"""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable
from datetime import datetime
from time import monotonic, time
from typing import Any

from drivers.simulator import bmc, system, volumes
from drivers.simulator.documents import (
    ACCOUNTS,
    CHASSIS,
    INVENTORY,
    MANAGER,
    MONITORS,
    ROOT,
    SESSIONS,
    STORAGE,
    SUBSCRIPTIONS,
    SYSTEM,
    TASKS,
    resource,
)
from drivers.simulator.machine import BIOS_CHOICES, BIOS_DEFAULTS
from drivers.simulator.power import Power, WrongState
from drivers.simulator.refusal import Refusal, choice, only
from drivers.simulator.rude import table as rude
from drivers.simulator.server import CUT, BadJson, Request, Response, json
from drivers.simulator.volumes import DONE, task_response

#: Most sessions at a time, as BMCs keep few; a new one replaces the oldest.
MAX_SESSIONS = 32
#: ResetKeysType -> SecureBootMode afterwards
KEY_RESETS = {"ResetAllKeysToDefault": "UserMode", "DeleteAllKeys": "SetupMode"}
OPEN = {"/redfish", ROOT}
DOCUMENTS = {**bmc.BMC_DOCUMENTS, **system.SYSTEM_DOCUMENTS}


class Redfish:
    """Redfish service of the machine that `power` switches."""

    def __init__(self, power: Power) -> None:
        self.power = power
        self.machine = power.machine

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answer a request as the BMC does, faults included."""
        faults, random = self.machine.faults, self.machine.random
        if faults.bmc_silent:
            return _silence()
        if faults.bmc_dead or (faults.drop_rate and random.random() < faults.drop_rate):
            return CUT
        if faults.latency or faults.latency_jitter:
            delay = faults.latency + random.uniform(0, faults.latency_jitter)
            return self._later(request, delay)
        return self._front(request)

    async def _later(self, request: Request, delay: float) -> Response:
        await asyncio.sleep(delay)
        return self._front(request)

    def _front(self, request: Request) -> Response:
        return rude.answer(self, request) if self.machine.faults.rude else self.answer(request)

    def answer(self, request: Request) -> Response:
        """Answer a request without rude faults."""
        machine = self.machine
        if machine.unsettled:
            machine.settle()
        path = request.path.rstrip("/")
        try:
            if machine.faults.error_rate and machine.random.random() < machine.faults.error_rate:
                raise Refusal(500, "InternalError", "The request failed due to an internal error.")
            if path not in OPEN and not self.is_authenticated(request):
                raise Refusal(401, "NoValidSession", "No valid credentials were given.")
            if request.method in ("GET", "HEAD"):
                machine.reads += 1
                response = self._show(path)
                return Response(200) if request.method == "HEAD" else response
            return self._change(request, path)
        except BadJson as error:
            return Refusal(400, "MalformedJSON", str(error)).response()
        except WrongState as error:
            return Refusal(409, "ResourceInUse", str(error)).response()
        except Refusal as refusal:
            challenge = {"WWW-Authenticate": 'Basic realm="BMC"'} if refusal.status == 401 else None
            return refusal.response(challenge)

    def carry_out(self, request: Request) -> Response:
        """Carry an order out that was authenticated before: its session may have ended since."""
        return self._change(request, request.path.rstrip("/"))

    def is_authenticated(self, request: Request) -> bool:
        """Whether a request has a valid session or password, or asks for a session."""
        if request.method == "POST" and request.path.rstrip("/") == SESSIONS:
            return True
        token = request.headers.get("x-auth-token")
        if token is not None:
            return token in self.machine.sessions.values()
        authorization = request.headers.get("authorization")
        if authorization is None:
            return False
        try:
            username, _, password = b64decode(authorization.removeprefix("Basic ")).partition(b":")
            return self._is_login(username.decode(), password.decode())
        except ValueError:
            return False

    def _is_login(self, username: object, password: object) -> bool:
        """
        Whether a login is accepted; count wrong ones.

        Raises Refusal: the user is locked out.
        """
        machine, faults = self.machine, self.machine.faults
        if isinstance(password, str):
            machine.seen_passwords.add(password)
        if monotonic() < machine.locked_until:
            if faults.lockout_hidden:
                return False
            raise Refusal(403, "AccessDenied", "The account is locked.")
        right = (username, password) == (machine.username, machine.password)
        machine.wrong_logins = 0 if right else machine.wrong_logins + 1
        if faults.lockout_after and machine.wrong_logins >= faults.lockout_after:
            machine.wrong_logins, machine.lockouts = 0, machine.lockouts + 1
            machine.locked_until = monotonic() + faults.lockout_seconds
        return right

    def _show(self, path: str) -> Response:
        machine = self.machine
        if path == "/redfish":
            return json({"v1": f"{ROOT}/"})
        document = DOCUMENTS.get(path.replace(machine.uuid, "{id}", 1))
        if document is not None:
            return json(document(machine))
        parent, _, last_part = path.rpartition("/")
        if parent == SESSIONS and last_part in machine.sessions:
            return json(bmc.session(last_part, machine.username))
        for documents in (machine.volumes, machine.subscriptions):
            if path in documents:
                return json(documents[path])
        if parent in (TASKS, MONITORS) and last_part.isdigit():
            return self._show_task(parent, int(last_part))
        raise Refusal(404, "ResourceMissingAtURI", f"There is no resource at {path}.")

    def _show_task(self, parent: str, number: int) -> Response:
        machine = self.machine
        if number >= len(machine.tasks) or machine.tasks[number].hidden:
            raise Refusal(404, "ResourceMissingAtURI", f"There is no task {number}.")
        is_running = parent != TASKS and time() < machine.tasks[number].ends
        return json(bmc.task(machine, number), 202 if is_running else 200)

    def _change(self, request: Request, path: str) -> Response:
        machine = self.machine
        template_path = path.replace(machine.uuid, "{id}", 1)
        action = ACTIONS.get((request.method, template_path))
        if action is not None:
            return action(self, request.json())
        parent, _, last_part = path.rpartition("/")
        if request.method == "DELETE":
            if parent == SESSIONS and machine.sessions.pop(last_part, ""):
                return DONE
            if machine.subscriptions.pop(path, {}):
                machine.record("redfish", "delete subscription", last_part)
                return DONE
            if path in machine.volumes:
                return volumes.delete(machine, path, request.json())
        if template_path in DOCUMENTS:
            raise Refusal(405, "OperationNotAllowed", f"{request.method} {path} is not allowed.")
        raise Refusal(404, "ResourceMissingAtURI", f"There is no resource at {path}.")

    # Actions: each receives the JSON body

    def reset(self, body: dict[str, object]) -> Response:
        kind = choice(body, "ResetType", system.RESET_TYPES)
        self.machine.record("redfish", RESET_WORDS[kind], kind)
        self.power.reset(kind)
        return DONE

    def change_system(self, body: dict[str, object]) -> Response:
        machine = self.machine
        only(body, {"Boot", "IndicatorLED", "AssetTag"})
        boot = body.get("Boot", {})
        if not isinstance(boot, dict):
            raise Refusal(400, "PropertyValueTypeError", "Boot is not an object.")
        override = "BootSourceOverride"
        only(
            boot,
            {*(f"{override}{suffix}" for suffix in ("Target", "Enabled", "Mode")), "HttpBootUri"},
        )
        target = choice(boot, f"{override}Target", system.BOOT_TARGETS, machine.boot_target)
        choices = system.boot_enabled(machine)
        enabled = choice(boot, f"{override}Enabled", choices, machine.boot_enabled)
        mode = choice(boot, f"{override}Mode", system.BOOT_MODES, machine.boot_mode)
        indicator = choice(body, "IndicatorLED", system.INDICATORS, machine.indicator)
        if boot:
            if machine.faults.boot_fixed_in_post and machine.runs == "starting":
                raise Refusal(400, "UnableToModifyDuringSystemPOST", "The system is in POST.")
            machine.boot_target, machine.boot_enabled, machine.boot_mode = target, enabled, mode
            machine.boot_uri = boot.get("HttpBootUri", machine.boot_uri) or ""
            machine.record("redfish", "boot device", boot)
        if "IndicatorLED" in body:
            machine.indicator = indicator
            machine.record("redfish", "indicator", indicator)
        if "AssetTag" in body:
            machine.asset_tag = str(body["AssetTag"])
            machine.record("redfish", "asset tag", machine.asset_tag)
        return DONE

    def change_chassis(self, body: dict[str, object]) -> Response:
        only(body, {"IndicatorLED"})
        return self.change_system(body)

    def change_drive(self, index: int, body: dict[str, object]) -> Response:
        only(body, {"IndicatorLED"})
        indicator = choice(body, "IndicatorLED", system.INDICATORS)
        self.machine.drive_indicators[index] = indicator
        self.machine.record("redfish", "drive indicator", {"drive": index, "led": indicator})
        return DONE

    def change_bios(self, body: dict[str, object]) -> Response:
        attributes = body.get("Attributes")
        if not isinstance(attributes, dict):
            raise Refusal(400, "PropertyMissing", "Attributes is missing.")
        for name, value in attributes.items():
            if name not in BIOS_DEFAULTS:
                raise Refusal(400, "PropertyUnknown", f"There is no BIOS attribute {name}.")
            if name in BIOS_CHOICES:
                choice(attributes, name, BIOS_CHOICES[name])
            elif not isinstance(value, int) or isinstance(value, bool):
                raise Refusal(400, "PropertyValueTypeError", f"{name} is not an integer.")
        self.machine.bios_pending.update(attributes)
        self.machine.record("redfish", "bios", attributes)
        return DONE

    def reset_bios(self, _body: dict[str, object]) -> Response:
        self.machine.bios_pending = dict(BIOS_DEFAULTS)
        self.machine.record("redfish", "reset bios")
        return DONE

    def change_secure_boot(self, body: dict[str, object]) -> Response:
        only(body, {"SecureBootEnable"})
        is_enabled = body.get("SecureBootEnable")
        if not isinstance(is_enabled, bool):
            raise Refusal(400, "PropertyValueTypeError", "SecureBootEnable is not a boolean.")
        if is_enabled and self.machine.boot_mode != "UEFI":
            raise Refusal(409, "ResourceInUse", "Secure boot needs boot mode UEFI.")
        self.machine.secure_boot = is_enabled
        self.machine.record("redfish", "secure boot", is_enabled)
        return DONE

    def reset_keys(self, body: dict[str, object]) -> Response:
        kind = body.get("ResetKeysType")
        if kind not in KEY_RESETS:
            raise Refusal(400, "ActionParameterNotSupported", "ResetKeysType is unknown.")
        self.machine.secure_boot_mode = KEY_RESETS[kind]
        self.machine.record("redfish", "reset keys", kind)
        return DONE

    def change_account(self, body: dict[str, object]) -> Response:
        machine, faults = self.machine, self.machine.faults
        only(body, {"Password"})
        password = body.get("Password")
        if isinstance(password, str):
            machine.seen_passwords.add(password)
        if not isinstance(password, str) or not 8 <= len(password) <= 20:
            raise Refusal(400, "PropertyValueFormatError", "Password has 8 to 20 characters.")
        if faults.password_refused:
            words = faults.password_refused.replace("{password}", password)
            raise Refusal(400, "PropertyValueError", words)
        machine.record("redfish", "password")
        if faults.password_cut != "before" and not faults.password_unapplied:
            machine.set_password(password)
        return CUT if faults.password_cut else DONE

    def change_manager(self, body: dict[str, Any]) -> Response:
        only(body, {"DateTime", "DateTimeLocalOffset"})
        machine = self.machine
        if "DateTime" in body:
            try:
                bmc_time = datetime.fromisoformat(body["DateTime"])
            except (TypeError, ValueError):
                raise Refusal(400, "PropertyValueFormatError", "DateTime is no time.") from None
            machine.clock_ahead = bmc_time.timestamp() - time()
        machine.clock_offset = body.get("DateTimeLocalOffset", machine.clock_offset)
        machine.record("redfish", "clock", body)
        return DONE

    def insert(self, device: str, body: dict[str, object]) -> Response:
        machine = self.machine
        url = body.get("Image")
        if not isinstance(url, str) or not url:
            raise Refusal(400, "ActionParameterMissing", "Image is missing.")
        if not url.startswith(("http://", "https://", "file:")):
            raise Refusal(400, "ActionParameterValueFormatError", f"{url} cannot be read.")
        if machine.media[device]:
            raise Refusal(409, "ResourceInUse", f"{device} holds {machine.media[device]}.")
        machine.media[device] = url
        machine.record("redfish", "insert media", {"device": device, "image": url})
        return DONE

    def eject(self, device: str, _body: dict[str, object]) -> Response:
        machine = self.machine
        machine.record("redfish", "eject media", {"device": device, "image": machine.media[device]})
        machine.media[device] = ""
        return DONE

    def reset_manager(self, body: dict[str, object]) -> Response:
        self.machine.sessions.clear()
        self.machine.record("redfish", "reset manager", body.get("ResetType"))
        return DONE

    def create_volume(self, body: dict[str, object]) -> Response:
        return volumes.create(self.machine, body)

    def subscribe(self, body: dict[str, Any]) -> Response:
        machine = self.machine
        events = body.get("EventTypes", [])
        if not body.get("Destination"):
            raise Refusal(400, "PropertyMissing", "Destination is missing.")
        if not set(events) <= set(bmc.EVENT_TYPES):
            raise Refusal(400, "PropertyValueNotInList", f"EventTypes cannot be {events!r}.")
        number = f"{machine.random.getrandbits(32):08x}"
        path = f"{SUBSCRIPTIONS}/{number}"
        properties = {name: value for name, value in body.items() if name != "HttpHeaders"}
        kind = "EventDestination.v1_9_0.EventDestination"
        machine.subscriptions[path] = resource(path, kind, "Subscription", **properties)
        machine.record("redfish", "create subscription", body)
        return json(machine.subscriptions[path], 201, {"Location": path})

    def update_firmware(self, body: dict[str, Any]) -> Response:
        machine = self.machine
        url = body.get("ImageURI")
        if not isinstance(url, str) or not url:
            raise Refusal(400, "ActionParameterMissing", "ImageURI is missing.")
        targets = body.get("Targets") or [f"{INVENTORY}/BMC"]
        parts = [str(target).rsplit("/", 1)[-1] for target in targets]
        version = url.rsplit("/", 1)[-1].rsplit(".", 1)[0]

        def flash() -> None:
            for part in parts:
                if part not in machine.firmware:
                    part = "BIOS" if part == machine.uuid else "BMC"
                machine.firmware[part] = version

        machine.record("redfish", "update firmware", {"image": url, "targets": targets})
        return self.begin_task("Firmware update", flash, machine.faults.task_seconds)

    def begin_task(
        self, name: str, effect: Callable[[], object], seconds: float, failure: str = ""
    ) -> Response:
        """Begin a task; return the answer to its order."""
        task = volumes.begin_task(self.machine, name, effect, seconds, failure)
        return task_response(self.machine, task.number)

    def log_in(self, body: dict[str, object]) -> Response:
        machine, sessions = self.machine, self.machine.sessions
        if not self._is_login(body.get("UserName"), body.get("Password")):
            raise Refusal(401, "NoValidSession", "User name or password are wrong.")
        while len(sessions) >= MAX_SESSIONS:
            del sessions[next(iter(sessions))]
        token = f"{machine.random.getrandbits(128):032x}"
        number = token[:8]
        sessions[number] = token
        return json(
            bmc.session(number, machine.username),
            201,
            {"X-Auth-Token": token, "Location": f"{SESSIONS}/{number}"},
        )


async def _silence() -> Response:
    await asyncio.get_running_loop().create_future()
    return CUT


RESET_WORDS = {
    "On": "power on",
    "ForceOn": "power on",
    "ForceOff": "power off",
    "GracefulShutdown": "soft power off",
    "ForceRestart": "restart",
    "PowerCycle": "restart",
    "GracefulRestart": "soft restart",
    "PushPowerButton": "power button",
    "Nmi": "nmi",
}


def _media(device: str) -> dict[tuple[str, str], Callable[[Redfish, dict[str, object]], Response]]:
    actions = f"{MANAGER}/VirtualMedia/{device}/Actions"
    return {
        ("POST", f"{actions}/VirtualMedia.InsertMedia"): lambda bmc, body: bmc.insert(device, body),
        ("POST", f"{actions}/VirtualMedia.EjectMedia"): lambda bmc, body: bmc.eject(device, body),
    }


def _drive(
    index: int,
) -> tuple[tuple[str, str], Callable[[Redfish, dict[str, object]], Response]]:
    path = f"{STORAGE}/Drives/{index}"
    return ("PATCH", path), lambda bmc, body: bmc.change_drive(index, body)


ACTIONS: dict[tuple[str, str], Callable[[Redfish, dict[str, object]], Response]] = {
    ("POST", f"{SYSTEM}/Actions/ComputerSystem.Reset"): Redfish.reset,
    ("PATCH", SYSTEM): Redfish.change_system,
    ("PATCH", CHASSIS): Redfish.change_chassis,
    ("PATCH", MANAGER): Redfish.change_manager,
    ("PATCH", f"{ACCOUNTS}/2"): Redfish.change_account,
    ("PATCH", f"{SYSTEM}/Bios/Settings"): Redfish.change_bios,
    ("POST", f"{SYSTEM}/Bios/Actions/Bios.ResetBios"): Redfish.reset_bios,
    ("PATCH", f"{SYSTEM}/SecureBoot"): Redfish.change_secure_boot,
    ("POST", f"{SYSTEM}/SecureBoot/Actions/SecureBoot.ResetKeys"): Redfish.reset_keys,
    **_media("Cd"),
    **_media("Floppy"),
    **dict(_drive(index) for index in range(system.DRIVES)),
    ("POST", f"{MANAGER}/Actions/Manager.Reset"): Redfish.reset_manager,
    ("POST", f"{STORAGE}/Volumes"): Redfish.create_volume,
    ("POST", f"{ROOT}/UpdateService/Actions/UpdateService.SimpleUpdate"): Redfish.update_firmware,
    ("POST", SUBSCRIPTIONS): Redfish.subscribe,
    ("POST", SESSIONS): Redfish.log_in,
}
