"""Boot device, boot mode and secure boot: orders, and their comparison with the BMC's report."""

import json

import pytest

from drivers.core.errors import Busy, NotSupported, Refused, Unconfirmed, Unexpected
from drivers.redfish.booting import boot_device
from drivers.redfish.transport import client
from drivers.simulator.redfish_bmc.documents import SYSTEM
from tests.unit.drivers.redfish.boot_bmc import BootBmc


@pytest.fixture
def bmc(monkeypatch):
    monkeypatch.setattr(boot_device, "LOOK_INTERVAL", 0.0)
    return BootBmc().install(monkeypatch)


@pytest.fixture
def node(bmc):
    return bmc.node()


@pytest.fixture
def management(node):
    return node.driver.management


def to_legacy(boot):
    return {"BootSourceOverrideMode": "Legacy", **boot}


def needs_all(boot):
    return boot if len(boot) > 2 else 400


def fixed_mode(boot):
    return 400 if "BootSourceOverrideMode" in boot else boot


def ignored_unless_whole(boot):
    return boot if len(boot) > 2 else {"BootSourceOverrideMode": "UEFI"}


@pytest.mark.parametrize("bmc_rule", [to_legacy, needs_all, fixed_mode, ignored_unless_whole])
@pytest.mark.parametrize("persistent", [True, False])
def test_device_and_mode_are_as_ordered_afterwards(bmc, node, management, bmc_rule, persistent):
    bmc.on_boot = bmc_rule
    management.set_boot_device(node, "pxe", persistent=persistent)
    enabled = "Continuous" if persistent else "Once"
    machine = bmc.machine
    assert ("Pxe", enabled, "UEFI") == (
        machine.boot_target, machine.boot_enabled, machine.boot_mode,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("bmc_rule", "words"),
    [
        (lambda _boot: {}, "accepted boot device pxe, and reports target None"),
        (lambda boot: {**boot, "BootSourceOverrideTarget": "Hdd"}, "target Hdd, not Pxe"),
        (lambda boot: {**boot, "BootSourceOverrideEnabled": "Disabled"}, "enabled Disabled"),
        (lambda boot: {**boot, "BootSourceOverrideMode": "Legacy"}, "mode Legacy, not UEFI"),
    ],
)
def test_an_accepted_boot_device_without_effect_is_an_error(bmc, node, management, bmc_rule, words):
    bmc.on_boot = bmc_rule
    with pytest.raises(Unexpected, match=words):
        management.set_boot_device(node, "pxe")


@pytest.mark.vendor("Lenovo", "boot device")
def test_a_bmc_that_keeps_once_for_continuous_gets_the_device_before_each_start(
    bmc, node, management
):
    bmc.on_boot = lambda boot: {**boot, "BootSourceOverrideEnabled": "Once"}
    management.set_boot_device(node, "disk", persistent=True)
    assert "disk" == node.reports["driver_internal_info"][boot_device.DEVICE]


def test_a_device_for_one_start_is_ordered_although_the_bmc_reports_it(bmc, node, management):
    """The report may be older than the last start, which has used the device up."""
    for _ in range(2):
        management.set_boot_device(node, "pxe")
    assert 2 == len(bmc.orders)


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_lost_answer_is_settled_by_reading(bmc, node, management, monkeypatch, is_carried_out):
    send, losses = client.Connection.set_boot, [True]

    def lose_first(connection, **values):
        if is_carried_out or not losses:
            send(connection, **values)
        if losses:
            losses.pop()
            raise Unconfirmed("the answer was lost")

    monkeypatch.setattr(client.Connection, "set_boot", lose_first)
    management.set_boot_device(node, "pxe")
    assert (1, "Pxe") == (len(bmc.orders), bmc.machine.boot_target)


@pytest.mark.parametrize(("losses", "is_set"), [(1, True), (2, True), (3, False)])
def test_a_whole_order_that_was_lost_is_sent_again(
    bmc, node, management, monkeypatch, losses, is_set
):
    """A BMC that refuses the short order loses the whole one, and shows no effect."""
    send, lost_orders = client.Connection.set_boot, []

    def lose(connection, **values):
        if "mode" not in values:
            raise Refused("BootSourceOverrideMode is missing")
        if len(lost_orders) < losses:
            lost_orders.append(values)
            raise Unconfirmed("the answer was lost")
        send(connection, **values)

    monkeypatch.setattr(client.Connection, "set_boot", lose)
    if is_set:
        management.set_boot_device(node, "pxe")
        assert "Pxe" == bmc.machine.boot_target
    else:
        with pytest.raises(Refused):
            management.set_boot_device(node, "pxe")
    assert losses == len(lost_orders)


@pytest.mark.parametrize("status", [503])
def test_a_busy_bmc_is_told_from_a_refusal(bmc, node, management, status):
    bmc.on_boot = lambda _boot: status
    for order in (
        lambda: management.set_boot_device(node, "pxe", persistent=True),
        lambda: management.set_boot_mode(node, "bios"),
    ):
        with pytest.raises(Busy):
            order()


@pytest.mark.vendor("AMI", "boot device")
@pytest.mark.vendor("Dell", "boot device")
def test_settings_of_the_next_start_count_as_set(bmc, node, management):
    """AMI and iDRAC 10 take the device in a resource of its own, and show it after the start."""
    path = f"{SYSTEM}/SD".replace("{id}", bmc.machine.uuid)
    pending = {"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled"}

    def with_settings(document):
        return {**document, "@Redfish.Settings": {"SettingsObject": {"@odata.id": path}}}

    bmc.changes[SYSTEM] = with_settings
    bmc.more[f"{SYSTEM}/SD"] = {"@odata.id": path, "Boot": pending}
    answer = bmc.answer

    def answer_settings(method, requested_path, headers, body=b""):
        if method == "PATCH" and requested_path == path:
            pending.update(json.loads(body)["Boot"])
            return 204, b"", {}
        return answer(method, requested_path, headers, body)

    bmc.answer = answer_settings
    management.set_boot_device(node, "pxe")
    assert ("Pxe", "None") == (pending["BootSourceOverrideTarget"], bmc.machine.boot_target)


def test_a_mode_that_the_bmc_does_not_list_is_not_ordered(bmc, node, management):
    listed = {"BootSourceOverrideMode@Redfish.AllowableValues": ["UEFI"]}
    bmc.changes[SYSTEM] = lambda document: {**document, "Boot": {**document["Boot"], **listed}}
    with pytest.raises(NotSupported, match="lists no boot mode Legacy"):
        management.set_boot_mode(node, "bios")
    assert [] == bmc.orders


def test_secure_boot_is_refused_in_legacy_mode_before_it_is_ordered(bmc, node, management):
    bmc.machine.boot_mode = "Legacy"
    with pytest.raises(
        Refused, match="secure boot needs boot mode UEFI, and the machine is in Leg"
    ):
        management.set_secure_boot(node, True)
    assert [] == bmc.orders
    management.set_secure_boot(node, False)
