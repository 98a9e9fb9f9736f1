"""Synchronous calls to conductors, and management requests that become operations."""

from types import SimpleNamespace

import pytest

from app.db.clock import utcnow
from app.inventory import hardware_inventory
from app.models import BiosSetting, FirmwareComponent, Node, Operation
from app.requests import locked_nodes
from drivers.fake.hardware import FakeManagement
from drivers.simulator.simulator import running

from .conftest import fault
from .direct_calls import DirectCalls

DEVICE = "/v1/nodes/n1/management/boot_device"
SENSORS = "/v1/nodes/n1/management/sensors"
LIGHTS = "/v1/nodes/n1/management/indicators"
VENDOR = "/v1/nodes/n1/vendor_passthru"


@pytest.fixture
def calls(api):
    api.runtime.calls = DirectCalls(api.runtime)
    yield api.runtime.calls
    api.runtime.calls = None


@pytest.fixture
def node(api, calls):
    return api.node(name="n1", provision_state="manageable")


def row(api):
    with api.runtime.reading() as session:
        return session.query(Node).one()


def operation(api):
    """Return kind and arguments of the new operation, None without one."""
    with api.runtime.reading() as session:
        new_operation = session.query(Operation).one_or_none()
        return new_operation and (new_operation.kind, new_operation.arguments)


def test_a_boot_device_is_set_and_shown(api, node):
    assert {"supported_boot_devices": ["pxe"]} == api("GET", f"{DEVICE}/supported").json
    assert {"boot_device": "pxe", "persistent": False} == api("GET", DEVICE).json

    answer = api("PUT", DEVICE, {"boot_device": "pxe", "persistent": True})

    assert (204, b"") == (answer.status_code, answer.data)
    assert {"boot_device": "pxe", "persistent": True} == api("GET", DEVICE).json


@pytest.mark.parametrize(
    ("version", "method", "path", "body", "status"),
    [
        ("1.115", "PUT", DEVICE, {"boot_device": "disk"}, 400),  # fake hardware has only pxe
        ("1.115", "PUT", DEVICE, {"boot_device": "tape"}, 400),
        ("1.115", "PUT", DEVICE, {}, 400),
        ("1.115", "GET", "/v1/nodes/n2/management/boot_device", None, 404),
        ("1.115", "GET", "/v1/nodes/n$/management/boot_device", None, 400),
        ("1.28", "PUT", "/v1/nodes/n1/management/inject_nmi", None, 404),
        ("1.29", "PUT", "/v1/nodes/n1/management/inject_nmi", None, 204),
        ("1.5", "GET", LIGHTS, None, 200),
        ("1.115", "GET", f"{LIGHTS}/led", None, 400),
        ("1.115", "GET", f"{LIGHTS}/led@moon", None, 400),
        ("1.115", "GET", f"{LIGHTS}/led@chassis", None, 400),
        ("1.115", "PUT", f"{LIGHTS}/led@system", {"state": "purple"}, 400),
        ("1.115", "PUT", f"{LIGHTS}/led-0@chassis", {"state": "on"}, 400),
        ("1.92", "GET", "/v1/nodes/n1/vmedia", None, 404),
        ("1.88", "POST", "/v1/nodes/n1/vmedia",
         {"device_type": "cdrom", "image_url": "http://a/b"}, 404),
        ("1.115", "POST", "/v1/nodes/n1/vmedia", {"device_type": "cdrom"}, 400),
        ("1.115", "POST", "/v1/nodes/n1/vmedia",
         {"device_type": "tape", "image_url": "http://a/b"}, 400),
        ("1.115", "POST", "/v1/nodes/n1/vmedia",
         {"device_type": "cdrom", "image_url": "file:///b"}, 400),
        ("1.115", "DELETE", "/v1/nodes/n1/vmedia?device_types=tape", None, 400),
        ("1.75", "PUT", "/v1/nodes/n1/states/boot_mode", {"target": "uefi"}, 404),
        ("1.115", "PUT", "/v1/nodes/n1/states/boot_mode", {"target": "cpm"}, 400),
        ("1.75", "PUT", "/v1/nodes/n1/states/secure_boot", {"target": True}, 404),
        ("1.115", "PUT", "/v1/nodes/n1/states/secure_boot", {"target": "perhaps"}, 400),
        ("1.11", "PUT", "/v1/nodes/n1/states/raid", {}, 406),
        ("1.115", "PUT", "/v1/nodes/n1/states/raid", {"logical_disks": []}, 400),
        ("1.115", "PUT", "/v1/nodes/n1/states/raid", {"disks": []}, 400),
        ("1.115", "PUT", "/v1/nodes/n1/states/raid",
         {"logical_disks": [{"raid_level": "7", "size_gb": 1}]}, 400),
        ("1.115", "PUT", "/v1/nodes/n1/states/raid", {"logical_disks": [{"raid_level": "1"}]}, 400),
        ("1.115", "PUT", "/v1/nodes/n1/states/console", {}, 400),
        ("1.115", "GET", f"{VENDOR}?method=nothing", None, 400),
        ("1.115", "POST", VENDOR, {"bar": "meow"}, 400),
        ("1.115", "GET", f"{VENDOR}/third_method_sync", None, 400),
        ("1.115", "POST", f"{VENDOR}/third_method_sync", {}, 400),
        ("1.115", "POST", f"{VENDOR}/third_method_sync", {"bar": "meow", "foo": 1}, 400),
        ("1.39", "GET", "/v1/nodes/n1/bios", None, 404),
        ("1.73", "GET", "/v1/nodes/n1/bios?detail=true", None, 406),
        ("1.115", "GET", "/v1/nodes/n1/bios?fields=colour", None, 400),
        ("1.115", "GET", "/v1/nodes/n1/bios/NumLock", None, 404),
        ("1.85", "GET", "/v1/nodes/n1/firmware", None, 404),
        ("1.113", "GET", "/v1/nodes/n1/firmware?fields=vendor", None, 400),
        ("1.80", "GET", "/v1/nodes/n1/inventory", None, 404),
        ("1.115", "GET", "/v1/nodes/n1/inventory", None, 404),
        ("1.11", "GET", "/v1/drivers/fake-hardware/raid/logical_disk_properties", None, 406),
        ("1.115", "GET", "/v1/drivers/none/raid/logical_disk_properties", None, 404),
        ("1.115", "GET", "/v1/drivers/none/vendor_passthru/methods", None, 404),
        ("1.115", "POST", "/v1/drivers/fake-hardware/vendor_passthru/x", {}, 400),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused(api, node, version, method, path, body, status):
    answer = api.at(version)(method, path, body)

    assert status == answer.status_code, answer.text
    assert status == 204 or status == 200 or answer.json["error_message"]
    assert [] == api.messages


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", DEVICE, None),
        ("PUT", DEVICE, {"boot_device": "pxe"}),
        ("PUT", "/v1/nodes/n1/management/inject_nmi", None),
        ("GET", f"{LIGHTS}/led@system", None),
        ("PUT", f"{LIGHTS}/led@system", {"state": "on"}),
        ("POST", f"{VENDOR}/third_method_sync", {"bar": "meow"}),
        ("POST", f"{VENDOR}/second_method", {"bar": "baz"}),
        ("POST", "/v1/nodes/n1/vmedia", {"device_type": "cdrom", "image_url": "http://a/b"}),
        ("DELETE", "/v1/nodes/n1/vmedia", None),
        ("PUT", "/v1/nodes/n1/states/boot_mode", {"target": "bios"}),
        ("PUT", "/v1/nodes/n1/states/secure_boot", {"target": True}),
        ("PUT", "/v1/nodes/n1/states/raid", {}),
        ("PUT", "/v1/nodes/n1/states/console", {"enabled": True}),
    ],
)
def test_a_locked_node_refuses_requests_that_need_the_lock(api, node, calls, method, path, body):
    api.set(node["uuid"], reservation="rack-1")

    answer = api(method, path, body)

    assert 409 == answer.status_code, answer.text
    assert "is locked by host rack-1" in fault(answer)["faultstring"]
    assert [] == calls.posted


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"{DEVICE}/supported", None),
        ("GET", LIGHTS, None),
        ("GET", SENSORS, None),
        ("GET", "/v1/nodes/n1/vmedia", None),
        ("GET", "/v1/nodes/n1/states/console", None),
        ("GET", f"{VENDOR}/methods", None),
        ("POST", f"{VENDOR}/fourth_method_shared_lock", {"bar": "woof"}),
    ],
)
def test_a_locked_node_answers_requests_that_need_no_lock(api, node, method, path, body):
    api.set(node["uuid"], reservation="rack-1")

    assert api(method, path, body).status_code in (200, 202)


def test_a_short_lock_is_awaited(api, node, monkeypatch):
    api.set(node["uuid"], reservation="rack-1")
    monkeypatch.setattr(locked_nodes, "time", SimpleNamespace(sleep=lambda _seconds: free()))

    def free():
        api.set(node["uuid"], reservation=None)

    assert 200 == api("GET", DEVICE).status_code


def test_indicators_are_listed_and_set(api, node):
    (fixed, led) = api("GET", LIGHTS).json["indicators"]

    assert ("led@system", "system", False) == (led["name"], led["component"], led["readonly"])
    assert ("led-0@chassis", True, ["off", "on"]) == (
        fixed["name"],
        fixed["readonly"],
        fixed["states"],
    )
    assert {"state": "on"} == api("GET", led["links"][0]["href"]).json
    assert {"state": "on"} == api.at("1.5")("GET", f"{LIGHTS}/led@system").json
    assert 204 == api("PUT", f"{LIGHTS}/led@system", {"state": "blinking"}).status_code
    assert {"state": "blinking"} == api("GET", f"{LIGHTS}/led@system").json


def test_sensors_are_read_once_for_many_readers(api, node, monkeypatch):
    reads, read = [], FakeManagement.sensors
    monkeypatch.setattr(
        FakeManagement, "sensors", lambda self, target: reads.append(1) or read(self, target)
    )
    for _ in range(3):
        readings = api("GET", SENSORS).json["sensors"]
    assert {
        "name": "CPU 1",
        "kind": "temperature",
        "reading": 41.5,
        "unit": "°C",
        "health": "ok",
    } in readings
    assert 1 == len(reads)
    patch = [{"op": "add", "path": "/description", "value": "another BMC"}]
    assert 200 == api("PATCH", "/v1/nodes/n1", patch).status_code
    assert 200 == api("GET", SENSORS).status_code
    assert 2 == len(reads), "a changed node is read again"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "begun"),
    [
        ("PUT", "states/boot_mode", {"target": "bios"}, 202, ("boot_mode", {"mode": "bios"})),
        ("PUT", "states/secure_boot", {"target": "false"}, 202, ("secure_boot", {"state": False})),
        ("POST", "vmedia", {"device_type": "cdrom", "image_url": "http://a/b.iso"}, 204,
         ("vmedia", {"device_type": "cdrom", "image_url": "http://a/b.iso"})),
        ("DELETE", "vmedia?device_types=cdrom,floppy", None, 204,
         ("vmedia", {"device_types": ["cdrom", "floppy"]})),
        ("DELETE", "vmedia", None, 204, ("vmedia", {"device_types": ["cdrom", "disk", "floppy"]})),
        ("PUT", "states/console", {"enabled": True}, 202, ("console", {})),
        ("PUT", "states/console", {"enabled": False}, 202, None),  # it is off already
        ("POST", "vendor_passthru/second_method", {"bar": "kazoo"}, 202,
         ("vendor", {"function": "second_method", "arguments": {"bar": "kazoo"}})),
        ("POST", "vendor_passthru?method=second_method", {"bar": "baz"}, 202,
         ("vendor", {"function": "second_method", "arguments": {"bar": "baz"}})),
        ("POST", "vendor_passthru/fourth_method_shared_lock", {"bar": "woof"}, 202, None),
    ],
)  # fmt: skip
def test_a_slow_request_becomes_an_operation(api, node, method, path, body, status, begun):
    answer = api(method, f"/v1/nodes/n1/{path}", body)

    assert (status, b"") == (answer.status_code, answer.data)
    assert begun == operation(api)
    assert (1 if begun else 0) == len(api.messages)
    assert "manageable" == row(api).provision_state


@pytest.mark.parametrize("state", ["cleaning", "wait call-back", "clean hold"])
def test_boot_mode_is_not_changed_during_a_transition(api, node, state):
    api.set(node["uuid"], provision_state=state)

    answer = api("PUT", "/v1/nodes/n1/states/boot_mode", {"target": "bios"})

    assert 409 == answer.status_code


@pytest.mark.parametrize(
    ("interface", "method", "path", "body", "status"),
    [
        ({"management_interface": "noop"}, "PUT", "states/boot_mode", {"target": "bios"}, 400),
        ({"management_interface": "noop"}, "PUT", "management/inject_nmi", None, 400),
        ({"management_interface": "noop"}, "GET", "management/indicators", None, 400),
        ({"management_interface": "noop"}, "GET", "management/sensors", None, 400),
        ({"management_interface": "noop"}, "GET", "vmedia", None, 400),
        ({"console_interface": "no-console"}, "PUT", "states/console", {"enabled": True}, 400),
        ({"vendor_interface": "no-vendor"}, "POST", "vendor_passthru/x", {}, 400),
        ({"raid_interface": "no-raid"}, "PUT", "states/raid",
         {"logical_disks": [{"raid_level": "1", "size_gb": "MAX"}]}, 404),
    ],
)  # fmt: skip
def test_what_a_node_lacks_is_refused(api, node, interface, method, path, body, status):
    api.set(node["uuid"], **interface)

    answer = api(method, f"/v1/nodes/n1/{path}", body)

    assert status == answer.status_code, answer.text
    assert [] == api.messages


@pytest.mark.parametrize(
    ("method", "body"),
    [("POST", {"device_type": "cdrom", "image_url": "http://a/b"}), ("DELETE", None)],
)
@pytest.mark.parametrize("interface", ["ipmitool", "noop"])
def test_virtual_media_of_a_driver_without_them_are_accepted_and_fail_later(
    api, node, interface, method, body
):
    info = {"ipmi_address": "192.0.2.1", "ipmi_username": "a", "ipmi_password": "b"}
    api.set(node["uuid"], management_interface=interface, driver_info=info)

    assert 204 == api(method, "/v1/nodes/n1/vmedia", body).status_code
    assert 1 == len(api.messages)


def test_an_unreachable_bmc_is_not_asked_for_media(api, node):
    api.set(node["uuid"], fault="power failure")

    body = {"device_type": "cdrom", "image_url": "http://a/b"}
    assert 503 == api("POST", "/v1/nodes/n1/vmedia", body).status_code


def test_a_raid_configuration_is_stored_and_deleted(api, node):
    config = {"logical_disks": [{"raid_level": "1+0", "size_gb": 100, "is_root_volume": True}]}

    assert 204 == api("PUT", "/v1/nodes/n1/states/raid", config).status_code
    assert config == api("GET", "/v1/nodes/n1").json["target_raid_config"]
    assert 204 == api("PUT", "/v1/nodes/n1/states/raid", {}).status_code
    assert {} == api("GET", "/v1/nodes/n1").json["target_raid_config"]


def test_a_console_is_shown_after_its_start(api, node):
    console = api("GET", "/v1/nodes/n1/states/console").json
    assert {"console_enabled": False, "console_info": None} == console

    api.set(node["uuid"], console_enabled=True)
    console = api("GET", "/v1/nodes/n1/states/console").json

    assert {"console_enabled": True, "console_info": {}} == console


def test_vendor_functions_are_described_and_called(api, node):
    functions = api("GET", f"{VENDOR}/methods").json

    assert {
        "http_methods": ["POST"],
        "async": False,
        "description": "Test if the value of bar is meow",
        "attach": False,
        "require_exclusive_lock": True,
    } == functions["third_method_sync"]
    for bar, expected in (("meow", True), ("woof", False)):
        answer = api("POST", f"{VENDOR}/third_method_sync", {"bar": bar})
        assert (200, expected) == (answer.status_code, answer.json)
    assert {} == api("GET", "/v1/drivers/fake-hardware/vendor_passthru/methods").json


def test_a_redfish_node_accepts_the_redfish_raid_interface_and_checks_its_target(api):
    path = "/v1/nodes/r1/states/raid"
    body = {
        "name": "r1",
        "driver": "redfish",
        "driver_info": {"redfish_address": "https://192.0.2.10"},
        "raid_interface": "redfish",
    }
    assert 201 == (created := api("POST", "/v1/nodes", body)).status_code, created.text
    config = {"logical_disks": [{"raid_level": "1", "size_gb": 100, "is_root_volume": True}]}
    assert 204 == api("PUT", path, config).status_code
    assert config == api("GET", "/v1/nodes/r1").json["target_raid_config"]
    refused = api("PUT", path, {"logical_disks": [{"raid_level": "JBOD", "size_gb": 100}]})
    assert 400 == refused.status_code
    assert fault(refused)["faultstring"].startswith("logical_disks/0/raid_level: Redfish has")
    described = api("GET", "/v1/drivers/redfish/raid/logical_disk_properties").json
    assert {"raid_level", "size_gb", "physical_disks", "controller"} <= set(described)
    other = api("POST", "/v1/nodes", {**body, "name": "r2", "raid_interface": None})
    assert "no-raid" == other.json["raid_interface"]


@pytest.fixture(scope="module")
def machine():
    with running(machines=1) as simulator:
        yield simulator.machines[0]


def test_vendor_functions_manage_subscriptions_to_the_events_of_a_bmc(api, calls, machine):
    body = {"name": "r1", "driver": "redfish", "driver_info": machine.driver_info()}
    assert 201 == api("POST", "/v1/nodes", body).status_code
    path = "/v1/nodes/r1/vendor_passthru"
    functions = api("GET", f"{path}/methods").json
    assert {
        "create_subscription": ["POST"],
        "delete_subscription": ["DELETE"],
        "get_all_subscriptions": ["GET"],
        "get_subscription": ["GET"],
    } == {
        name: description["http_methods"]
        for name, description in functions.items()
        if "subscription" in name and description["async"] is False
    }

    def call(method, function, arguments=None):
        return api(method, f"{path}?method={function}", arguments)

    arguments = {"Destination": "https://192.0.2.1/events", "EventTypes": ["Alert"]}
    created = call("POST", "create_subscription", arguments)
    assert 200 == created.status_code, created.text
    subscription = {"id": created.json["Id"]}
    assert created.json == call("GET", "get_subscription", subscription).json
    assert 1 == call("GET", "get_all_subscriptions").json["Members@odata.count"]
    deleted = call("DELETE", "delete_subscription", subscription)
    assert (200, None) == (deleted.status_code, deleted.json)
    for method, function in (("GET", "get_subscription"), ("DELETE", "delete_subscription")):
        assert 404 == call(method, function, subscription).status_code
        assert fault(call(method, function))["faultstring"].startswith("id: vendor function")
    refused = call("POST", "create_subscription", {**arguments, "EventTypes": ["Fire"]})
    assert 400 == refused.status_code
    assert fault(refused)["faultstring"].startswith("EventTypes: ")


def test_bios_settings_grow_with_the_version(api, node):
    with api.runtime.transaction() as session:
        session.add(
            BiosSetting(
                node_id=row(api).id, created_at=utcnow(), name="NumLock", value="On",
                attribute_type="Enumeration", allowable_values=["On", "Off"], read_only=False,
            )
        )  # fmt: skip
    (plain,) = api("GET", "/v1/nodes/n1/bios").json["bios"]
    assert {"name", "value", "links", "created_at", "updated_at"} == plain.keys()
    (detailed,) = api("GET", "/v1/nodes/n1/bios?detail=true").json["bios"]
    assert ["On", "Off"] == detailed["allowable_values"]
    (setting,) = api("GET", "/v1/nodes/n1/bios?fields=name,read_only").json["bios"]
    assert {"name": "NumLock", "read_only": False} == {
        key: setting[key] for key in ("name", "read_only")
    }
    assert "value" not in setting
    one = api("GET", plain["links"][0]["href"]).json["NumLock"]
    assert ("On", "Enumeration") == (one["value"], one["attribute_type"])
    old = api.at("1.73")("GET", "/v1/nodes/n1/bios/NumLock").json["NumLock"]
    assert "attribute_type" not in old


def test_firmware_grows_with_the_version(api, node):
    with api.runtime.transaction() as session:
        session.add(
            FirmwareComponent(
                node_id=row(api).id, created_at=utcnow(), component="bmc", initial_version="1.0",
                current_version="2.0", vendor="Simulated",
            )
        )  # fmt: skip
    (new,) = api("GET", "/v1/nodes/n1/firmware").json["firmware"]
    (old,) = api.at("1.113")("GET", "/v1/nodes/n1/firmware").json["firmware"]

    assert ("1.0", "2.0", "Simulated") == (
        new["initial_version"],
        new["current_version"],
        new["vendor"],
    )
    assert {"vendor", "model", "serial_number"} == new.keys() - old.keys()


def test_an_inventory_is_shown_as_it_was_stored(api, node):
    for hostname in ("first", "second"):
        with api.runtime.transaction() as session:
            inventory = {"hostname": hostname}
            hardware_inventory.store(
                session, session.query(Node).one(), inventory, {"root_disk": "/dev/sda"}
            )

    assert {"inventory": {"hostname": "second"}, "plugin_data": {"root_disk": "/dev/sda"}} == api(
        "GET", "/v1/nodes/n1/inventory"
    ).json
    api.set(node["uuid"], maintenance=True)
    assert 204 == api("DELETE", "/v1/nodes/n1").status_code


def test_logical_disks_are_described(api):
    properties = api("GET", "/v1/drivers/fake-hardware/raid/logical_disk_properties").json

    assert {"raid_level", "size_gb", "is_root_volume"} < properties.keys()


def test_an_unreachable_broker_is_reported(api, node, calls):
    calls.broken = True

    assert 503 == api("GET", DEVICE).status_code
