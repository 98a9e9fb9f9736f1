"""
Every command to a BMC ends with a storable answer or a HardwareError, also for malformed documents.

Documents of the simulator lose properties, get values of wrong types, or link in circles.
"""

import json
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import count

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivers.core.errors import HardwareError
from drivers.core.steps import Wait
from drivers.simulator.redfish_bmc.documents import CHASSIS, ROOT
from tests.unit.drivers.documents import LocalBmc, sweep_of

ISO = "http://images/agent.iso"
GONE = object()
#: Replacements of a property's value.
VALUES = (
    None, True, 0, -1, 1.5, 10**30, float("inf"), "", "Absent", "x" * 100_000, "\x00\ud800",
    [], {}, [None], [[]], ["Pxe", 5], [{}], {"Members": None},
    {"@odata.id": None}, {"@odata.id": 7}, {"@odata.id": ROOT}, {"@odata.id": CHASSIS},
    {"@odata.id": "/nowhere"}, {"@odata.id": "http://[bad"}, {"@odata.id": "ftp://there/x"},
    [{"@odata.id": ROOT}], [{"@odata.id": "/nowhere"}, 5],
)  # fmt: skip
#: Replacements of a whole document; bytes are sent unchanged.
WHOLES = (None, b"", b"<html>", b"[" * 100_000, b"\xff\xfe", [], {}, 5, "x", [[{}]])


def _settled(node, kind, step, **args):
    """Call a step of an interface a few times."""
    for _ in range(4):
        outcome = node.driver.by_kind[kind].run(node, step, args)
        if not isinstance(outcome, Wait):
            break
        node = replace(node, progress=outcome.progress)


def _verify(node):
    _settled(node, "management", "cache_system_facts")
    _settled(node, "bios", "cache_bios_settings")
    _settled(node, "firmware", "cache_firmware_components")


def _indicators(node):
    management = node.driver.management
    for indicator in management.indicators(node):
        management.get_indicator(node, indicator["component"], indicator["name"])
        management.set_indicator(node, indicator["component"], indicator["name"], "on")


def _boot_device(node):
    management = node.driver.management
    management.set_boot_device(node, "pxe")
    return [management.get_boot_device(node), management.supported_boot_devices(node)]


def _media(node):
    management = node.driver.management
    management.attach_virtual_media(node, "cdrom", ISO)
    media = management.virtual_media(node)
    management.detach_virtual_media(node, ["cdrom", "floppy"])
    return media


COMMANDS = {
    "verify": _verify,
    "power": lambda node: node.driver.power.get_power_state(node),
    "power order": lambda node: node.driver.power.order(node, "power on"),
    "sweep": lambda node: _raised(sweep_of(node, secure_boot=True)),
    "inspection": lambda node: node.driver.inspect.inspect_hardware(node),
    "addresses": lambda node: node.driver.management.mac_addresses(node),
    "indicators": _indicators,
    "sensors": lambda node: node.driver.management.sensors(node),
    "boot device": _boot_device,
    "boot mode": lambda node: node.driver.management.change_boot_mode(node, "bios"),
    "secure boot": lambda node: node.driver.management.change_secure_boot(node, True),
    "interrupt": lambda node: node.driver.management.inject_nmi(node),
    "virtual media": _media,
    "boot": lambda node: node.driver.boot.prepare_ramdisk(node),
    "BIOS": lambda node: _settled(
        node, "bios", "apply_configuration", settings=[{"name": "NumLock", "value": "Off"}]
    ),
    "BIOS reset": lambda node: _settled(node, "bios", "factory_reset"),
    "firmware": lambda node: _settled(
        node, "firmware", "update", settings=[{"component": "bios", "url": "http://images/b"}]
    ),
}


def _raised(answer):
    if isinstance(answer, Exception):
        raise answer
    return answer


def run(command, changes):
    """Run a command against changed documents; only a HardwareError may be raised."""
    with pytest.MonkeyPatch.context() as patch:
        bmc = LocalBmc(changes=changes).install(patch)
        node = bmc.node()
        try:
            answer = COMMANDS[command](node)
        except HardwareError as error:
            answer = str(error)
        assert_storable(answer if isinstance(answer, str | list | dict) else None)
        assert_storable(node.reports)
        for component in node.reports.get("firmware", ()):
            assert all(value is None or len(value) <= 255 for value in component.values())
        for setting in node.reports.get("bios_settings", ()):
            assert len(setting["name"]) <= 255
            assert all(
                setting.get(name) is None or abs(setting[name]) < 2**31
                for name in ("lower_bound", "upper_bound", "min_length", "max_length")
            )
        return bmc


def assert_storable(value):
    """Assert JSON for both databases and all clients: no NUL, lone surrogate or huge number."""
    assert b"\\u0000" not in orjson.dumps(value)


def pointers(value, at=()):
    """Pointers to all values of a document."""
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in children:
        yield (*at, key)
        if isinstance(child, dict | list):
            yield from pointers(child, (*at, key))


def changed(pointer, value):
    """Return a change that sets a value at a pointer, or removes the value there."""

    def change(document):
        document = deepcopy(document)
        inside = document
        try:
            for key in pointer[:-1]:
                inside = inside[key]
            if value is GONE:
                del inside[pointer[-1]]
            else:
                inside[pointer[-1]] = value
        except (KeyError, IndexError, TypeError):
            pass  # removed by an earlier change
        return document

    return change


def all_of(first_change, second_change):
    return lambda document: second_change(first_change(document))


def changes_of(command):
    """Strategy of (path, change) for the documents that a command reads."""
    requests = run(command, {}).request_log
    bmc = LocalBmc()
    documents = bmc.documents()
    read = {
        path.rstrip("/").replace(bmc.machine.uuid, "{id}") for _, path in requests
    } & documents.keys()
    parts = [
        (path, pointer)
        for path in sorted(read)
        for pointer in pointers(json.loads(json.dumps(documents[path])))
    ]
    part = st.tuples(st.sampled_from(parts), st.sampled_from((GONE, *VALUES))).map(
        lambda drawn: (drawn[0][0], changed(drawn[0][1], drawn[1]))
    )
    whole = st.tuples(st.sampled_from(sorted(read)), st.sampled_from(WHOLES)).map(
        lambda drawn: (drawn[0], None if drawn[1] is None else lambda _: drawn[1])
    )
    return st.lists(st.one_of(part, part, part, whole), min_size=1, max_size=3)


@pytest.mark.parametrize("command", COMMANDS)
def test_malformed_documents_raise_only_hardware_errors(command):
    @settings(
        derandomize=True, database=None, deadline=None, max_examples=25,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(changes_of(command))
    def try_(drawn):
        changes = {}
        for path, change in drawn:
            earlier_change = changes.get(path, change)
            whole = earlier_change is None or change is None
            changes[path] = None if whole else all_of(earlier_change, change)
        run(command, changes)

    try_()


#: Commands of a single order.
SINGLE = ("power order", "boot mode", "secure boot", "interrupt")


def read_documents(command):
    """Return the paths of the documents that a command reads."""
    bmc = LocalBmc()
    paths = {path.rstrip("/") for _, path in run(command, {}).request_log}
    return {path.replace(bmc.machine.uuid, "{id}") for path in paths} & bmc.documents().keys()


@cache
def readers():
    """Return the commands that read each document, by its path."""
    commands = {}
    for command in COMMANDS:
        for path in read_documents(command):
            commands.setdefault(path, []).append(command)
    return commands


def retyped(value):
    """Return a value of another JSON type."""
    return 7 if isinstance(value, str) else [value] if isinstance(value, dict) else "7"


def value_at(document, pointer):
    for key in pointer:
        document = document[key]
    return document


@pytest.mark.parametrize("number", range(4))
def test_each_property_may_be_missing_null_or_of_another_type(number):
    """Each property of each document once in all ways, by the commands that read it in turn."""
    documents = LocalBmc().documents()
    turns = count()
    for path in sorted(readers())[number::4]:
        document = json.loads(json.dumps(documents[path]))
        for pointer in pointers(document):
            for value in (GONE, None, retyped(value_at(document, pointer))):
                command = readers()[path][next(turns) % len(readers()[path])]
                bmc = run(command, {path: changed(pointer, value)})
                orders = [method for method, _ in bmc.request_log if method not in {"GET", "HEAD"}]
                assert command not in SINGLE or len(orders) <= 1, (path, pointer, value, command)
