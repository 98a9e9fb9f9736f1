"""Test doubles of driver tests: targets, a scripted agent, a server of images."""

import io
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import parse_qs, urlsplit

import pycdlib

from app.config.settings import Settings
from drivers.builtin import HARDWARE_TYPES, INTERFACES
from drivers.core.bmc import Bmcs
from drivers.core.registry import Registry, load
from drivers.core.target import Agent, Nic, Target
from tests.support.loopback import OTHERS_DENIED
from tests.support.web import Handler, serving

KERNEL, RAMDISK = b"a kernel" * 5000, b"a ramdisk" * 5000

_OWN = {
    "DEFAULT": {"data_dir": "", "force_raw_images": False, "webserver_verify_ca": "True", "webserver_connection_timeout": 5},
    "conductor": {
        "permitted_image_formats": ("raw", "gpt", "qcow2", "iso"),
        "disable_deep_image_inspection": False,
        "file_url_allowed_paths": (),
        "verify_ca_allowed_paths": ("/",),
        "fetch_denied_networks": (),  # servers of tests are on loopback
        "power_state_change_timeout": 60,
        "soft_power_off_timeout": 600,
    },
    "bmc": {"denied_networks": OTHERS_DENIED},
    "agent": {
        "denied_networks": OTHERS_DENIED,
        "command_timeout": 5,
        "max_command_attempts": 3,
        "verify_ca": "True",
        "stream_raw_images": True,
        "image_download_source": "http",
        "memory_consumed_by_agent": 0,
        "allow_md5_checksum": False,
        "manage_agent_boot": True,
        "deploy_logs_collect": "on_failure",
        "deploy_logs_local_path": "",
        "deploy_logs_max_size": 1,
        "post_deploy_get_power_state_retries": 2,
        "post_deploy_get_power_state_retry_interval": 5,
    },
    "deploy": {
        "ramdisk_signed": False,
        "default_boot_mode": "uefi",
        "fast_track": False,
        "fast_track_timeout": 300,
        "http_url": None,
        "erase_devices_priority": None,
        "erase_devices_metadata_priority": None,
        "delete_configuration_priority": None,
        "create_configuration_priority": None,
        "shred_random_overwrite_iterations": 1,
        "shred_final_overwrite_with_zeros": True,
        "continue_if_disk_secure_erase_fails": False,
        "enable_nvme_secure_erase": True,
        "enable_ata_secure_erase": True,
        "disk_erasure_concurrency": 4,
        "erase_skip_read_only": False,
    },
    "redfish": {"auth_type": "auto", "connect_timeout": 2, "read_timeout": 5},
    "fake": {
        f"{name}_delay": "0"
        for name in (
            "power", "boot", "deploy", "vendor", "management", "inspect",
            "raid", "bios", "storage", "rescue", "firmware",
        )
    },
}  # fmt: skip
OPTIONS = {
    group: {**values, **_OWN.get(group, {})} for group, values in Settings().options().items()
}
TOKEN = "a-token-of-more-than-thirty-two-characters"


@cache
def _loaded() -> Registry:
    return load(HARDWARE_TYPES, enabled_interfaces=INTERFACES)


def new_registry(bmcs: Bmcs | None = None) -> Registry:
    """Copy a registry with all interfaces, which is faster than loading it."""
    registry, bmcs = Registry(), bmcs or Bmcs()
    for name, kinds in _loaded().types.items():
        registry.types[name] = {
            kind: {
                interface_name: copy(interface) for interface_name, interface in interfaces.items()
            }
            for kind, interfaces in kinds.items()
        }
        for interfaces in registry.types[name].values():
            for interface in interfaces.values():
                interface.bmcs = bmcs
    return registry


def changed_options(**values):
    """Return OPTIONS with changed values: group__name=value."""
    options = {group: dict(group_options) for group, group_options in OPTIONS.items()}
    for name, value in values.items():
        group, _, option = name.partition("__")
        options[group][option] = value
    return options


def target(
    driver="fake-hardware", interfaces=None, registry: Registry | None = None, **fields
) -> Target:
    bound_driver = (registry or new_registry()).driver(driver, interfaces or {})
    defaults = {
        "uuid": "2c683317-1ef8-4645-b76b-321ffa501c0a",
        "name": "n0",
        "driver": bound_driver,
        "options": OPTIONS,
        "nics": (Nic("1", "52:54:00:00:00:01"),),
        "record": {"uuid": "2c683317-1ef8-4645-b76b-321ffa501c0a", "properties": {}},
    }
    return Target(**{**defaults, **fields})


def with_option(group: str, **values) -> dict:
    return {**OPTIONS, group: {**OPTIONS[group], **values}}


@dataclass
class ScriptedAgent:
    """
    Command API of an agent. Commands stay RUNNING until `finish` or `fail`.

    answers: command name -> result of a synchronous command.
    refusal: (status, fault) of the next commands. lacks: unsupported extensions and commands.
    """

    url: str = ""
    commands: list = field(default_factory=list)
    answers: dict = field(default_factory=dict)
    received: list = field(default_factory=list)
    refusal: tuple | None = None
    lacks: tuple = ()

    def finish(self, result=None) -> None:
        self.commands[-1] |= {"command_status": "SUCCEEDED", "command_result": result}

    def finish_step(self, flow="clean", result=None) -> None:
        step = self.received[-1][1]["step"]
        self.finish({f"{flow}_result": result, f"{flow}_step": step})

    def fail(self, details: str, status="FAILED") -> None:
        error = {"type": "CommandExecutionError", "code": 500, "message": "x", "details": details}
        self.commands[-1] |= {"command_status": status, "command_error": error}

    def restart(self) -> None:
        self.commands.clear()

    def names(self) -> list[str]:
        return [name for name, _ in self.received]

    def seen(self) -> Agent:
        return Agent(self.url, TOKEN, None, "13.0.0", {}, {"manager": "1"})

    def post(self, name: str, params: dict, *, wait: bool) -> tuple[int, dict]:
        if self.refusal:
            return self.refusal[0], {"faultcode": "Client", "faultstring": self.refusal[1]}
        extension, _, verb = name.partition(".")
        if extension in self.lacks:
            return 404, {"faultstring": f"404 Not Found: Extension {extension} not found"}
        if name in self.lacks:
            return 400, {"faultstring": f"Invalid command: Unknown command: {verb}"}
        self.received.append((name, params))
        command = {
            "id": f"id-{len(self.received)}",
            "command_name": name.partition(".")[2],
            "command_status": "SUCCEEDED" if wait else "RUNNING",
            "command_error": None,
            "command_result": self.answers.get(name) if wait else None,
        }
        self.commands.append(command)
        return 200, command


@contextmanager
def scripted_agent():
    agent = ScriptedAgent()

    class Asked(Handler):
        def do_GET(self):
            if self._allowed():
                self.answer(200, {"commands": agent.commands})

        def do_POST(self):
            body = self.body()
            if self._allowed():
                wait = parse_qs(urlsplit(self.path).query)["wait"] == ["true"]
                self.answer(*agent.post(body["name"], body["params"], wait=wait))

        def _allowed(self):
            if parse_qs(urlsplit(self.path).query).get("agent_token") == [TOKEN]:
                return True
            self.answer(401, {"faultcode": "Client", "faultstring": "401 Unauthorized"})
            return False

    with serving(Asked) as server:
        agent.url = server.url
        yield agent


@contextmanager
def image_server():
    """
    Server of `files`, path -> content; `url` is its address.

    It supports ranges, as servers of images do; `request_log`: requested paths, in order.
    """

    class Files(Handler):
        def do_GET(self):
            self.server.request_log.append(self.path)
            content = self.server.files.get(self.path.partition("?")[0])
            if content is None:
                self.send_error(404)
                return
            part, whole = self.headers.get("Range"), len(content)
            if not part:
                self.answer(200, content)
                return
            start, end = map(int, part.removeprefix("bytes=").split("-"))
            content = content[start : end + 1]
            self.answer(206, content, {"Content-Range": f"bytes {start}-{end}/{whole}"})

    with serving(Files, files={}, request_log=[]) as server:
        yield server


def on(image, *names):
    """Contents of the named files on an image, given as a path or bytes."""
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(image if isinstance(image, bytes) else image.read_bytes()))
    contents = []
    for name in names:
        content = io.BytesIO()
        iso.get_file_from_iso_fp(content, rr_path=name)
        contents.append(content.getvalue())
    iso.close()
    return contents
