"""Boot mode and secure boot of capabilities: changes, their time, crashes."""

from dataclasses import dataclass, field, replace

import pytest

from drivers.core import capabilities
from drivers.core.errors import InvalidDriverInfo, NotSupported, Refused, StepFailed
from drivers.core.interface_kinds import POWER_OFF, POWER_ON
from drivers.core.kinds import boot_settings
from drivers.core.steps import Done, Wait
from tests.unit.drivers.machines import target, with_option

SECURE = {"capabilities": '{"secure_boot": "true"}'}


@dataclass
class Machine:
    """
    Firmware settings of a machine, and the orders that it gets.

    needs_start: a change takes effect with a start only. works: whether it then does.
    """

    mode: str | None = "uefi"
    secure: bool | None = False
    power: str = POWER_OFF
    needs_start: bool = False
    works: bool = True
    refusal: Exception | None = None
    orders: list = field(default_factory=list)
    pending: dict = field(default_factory=dict)

    def change(self, name, value):
        self.orders.append((name, value))
        if self.refusal:
            raise self.refusal
        self.pending[name] = value
        if not self.needs_start:
            self.start()

    def start(self):
        if self.works:
            vars(self).update(self.pending)
        self.pending.clear()


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    management = type(node().driver.management)
    for name, function in {
        "get_boot_mode": lambda _self, _node: machine.mode,
        "get_secure_boot": lambda _self, _node: machine.secure,
        "set_boot_mode": lambda _self, _node, mode: machine.change("mode", mode),
        "set_secure_boot": lambda _self, _node, state: machine.change("secure", state),
        "set_boot_device": lambda _self, _node, device, persistent: machine.orders.append(
            ("device", device)
        ),
    }.items():
        monkeypatch.setattr(management, name, function)

    def change_power(_power, _node, state, timeout=None):
        machine.orders.append(("power", state))
        if state != POWER_OFF:
            machine.start()
        machine.power = POWER_OFF if state == POWER_OFF else POWER_ON
        return Done()

    power = type(node().driver.power)
    monkeypatch.setattr(power, "change", change_power)
    monkeypatch.setattr(power, "get_power_state", lambda _self, _node: machine.power)
    return machine


def node(**fields):
    return target(options=with_option("redfish", boot_mode_config_timeout=12), **fields)


def finish(node, part):
    """Call a part of a step until it ends; return the outcome, and the node as recorded."""
    for _ in range(20):
        outcome = part(node)
        facts = {**node.driver_internal_info, **node.reports.get("driver_internal_info", {})}
        facts = {name: fact for name, fact in facts.items() if fact is not None}
        reported = node.reports
        node = replace(node, driver_internal_info=facts, reports={}, progress={})
        if not isinstance(outcome, Wait):
            return outcome, replace(node, reports=reported)
        node = replace(node, progress=dict(outcome.progress))
    raise AssertionError(f"no end: {outcome}")


def test_what_nobody_requests_is_kept_and_noted(machine):
    machine.mode, machine.secure = "bios", True
    outcome, later_node = finish(node(), boot_settings.for_ramdisk)
    assert (Done(), []) == (outcome, machine.orders)
    assert {"boot_mode": "bios"}.items() <= later_node.reports.items()
    assert "bios" == capabilities.boot_mode(later_node)
    assert Done() == finish(node(), boot_settings.for_instance)[0]
    assert Done() == finish(node(), boot_settings.after_instance)[0]
    assert [] == machine.orders


@pytest.mark.parametrize("field", ["properties", "instance_info"])
@pytest.mark.parametrize("form", ["boot_mode:bios", '{"boot_mode": "bios"}', {"boot_mode": "BIOS"}])
def test_the_requested_boot_mode_is_set_once(machine, field, form):
    it = node(**{field: {"capabilities": form}})
    for part in (boot_settings.for_ramdisk, boot_settings.for_instance):
        outcome, later_node = finish(it, part)
        assert (Done(), "bios") == (outcome, later_node.reports["boot_mode"])
    assert [("mode", "bios")] == machine.orders


@pytest.mark.parametrize("refusal", [NotSupported("it cannot"), Refused("no")])
def test_a_machine_that_cannot_be_put_into_the_mode_fails_in_words(machine, refusal):
    machine.refusal = refusal
    it = node(properties={"capabilities": "boot_mode:bios"})
    with pytest.raises(type(refusal), match=r"boot mode of node .* is uefi, not bios as requested"):
        boot_settings.for_ramdisk(it)


@pytest.mark.parametrize("refusal", [NotSupported("it cannot"), Refused("no")])
def test_a_machine_that_neither_reports_nor_takes_a_mode_is_booted_as_it_is(machine, refusal):
    machine.mode, machine.refusal = None, refusal
    it = node(properties={"capabilities": "boot_mode:bios"})
    assert Done() == boot_settings.for_ramdisk(it)


def test_a_machine_that_cannot_change_its_mode_but_is_in_it_boots(machine):
    machine.refusal = NotSupported("it cannot")
    assert Done() == boot_settings.for_ramdisk(node(properties={"capabilities": "boot_mode:uefi"}))
    assert [] == machine.orders


def test_a_change_that_needs_a_start_gets_one_into_the_setup_and_is_seen(machine):
    machine.needs_start = True
    outcome, _ = finish(node(instance_info=SECURE), boot_settings.for_instance)
    assert (Done(), True, POWER_OFF) == (outcome, machine.secure, machine.power)
    assert [
        ("secure", True), ("device", "bios"), ("power", "rebooting"), ("power", POWER_OFF),
    ] == machine.orders  # fmt: skip


def test_a_change_that_the_start_does_not_apply_fails_in_words(machine):
    machine.needs_start, machine.works = True, False
    with pytest.raises(StepFailed, match=r"secure boot of node .* is off, not on as ordered"):
        finish(node(instance_info=SECURE), boot_settings.for_instance)


def test_a_crash_after_the_order_does_not_order_it_again(machine):
    machine.needs_start = True
    it = node(instance_info=SECURE)
    ordered = boot_settings.for_instance(it)
    assert isinstance(ordered, Wait)
    for _ in range(2):  # the conductor dies in the restart; the step is called again
        boot_settings.for_instance(replace(it, progress=ordered.progress, resumed=True))
    assert 1 == machine.orders.count(("secure", True))


@pytest.mark.parametrize(("crashes", "doubted"), [(1, False), (2, True)])
def test_only_a_crash_after_the_order_puts_the_restart_in_doubt(
    machine, monkeypatch, crashes, doubted
):
    """One crash was before the setting was ordered, another one may be that of the restart."""
    machine.needs_start, resumptions = True, []
    power = type(node().driver.power)
    monkeypatch.setattr(
        power, "change", lambda _self, it, _state: resumptions.append(it.resumed) or Done()
    )
    it = node(instance_info=SECURE, resumed=True, crashes=1)
    ordered = boot_settings.for_instance(it)
    boot_settings.for_instance(replace(it, progress=ordered.progress, crashes=crashes))
    assert doubted is resumptions[0]


def test_secure_boot_of_an_instance_is_switched_off_for_each_ramdisk(machine):
    it = node(instance_info=SECURE)
    _, it = finish(it, boot_settings.for_instance)
    assert (True, True) == (machine.secure, it.driver_internal_info[boot_settings.OF_INSTANCE])
    _, it = finish(replace(it, reports={}), boot_settings.for_ramdisk)
    assert (False, {}) == (machine.secure, _of_instance(it))
    finish(replace(it, reports={}), boot_settings.for_instance)
    assert machine.secure


@pytest.mark.parametrize(
    ("info", "setting", "is_signed"),
    [
        ({"ramdisk_signed": True}, False, True), ({"ramdisk_signed": "True"}, False, True),
        ({}, True, True), ({"ramdisk_signed": "false"}, True, False), ({}, False, False),
        ({"ramdisk_signed": None}, True, True),
    ],
)  # fmt: skip
def test_secure_boot_stays_on_for_a_ramdisk_that_is_signed(machine, info, setting, is_signed):
    it = node(instance_info=SECURE, driver_info=info)
    deploy = {**it.options["deploy"], "ramdisk_signed": setting}
    it = replace(it, options={**it.options, "deploy": deploy})
    _, it = finish(it, boot_settings.for_instance)
    _, it = finish(replace(it, reports={}), boot_settings.for_ramdisk)
    assert is_signed is machine.secure
    _, it = finish(replace(it, reports={}), boot_settings.for_installer)
    assert not machine.secure


def test_secure_boot_of_a_forgotten_instance_ends_with_a_signed_ramdisk_too(machine):
    _, it = finish(
        node(instance_info=SECURE, driver_info={"ramdisk_signed": True}), boot_settings.for_instance
    )
    forgotten = replace(it, instance_info={}, reports={})
    _, it = finish(forgotten, boot_settings.for_ramdisk)
    assert (False, {}) == (machine.secure, _of_instance(it))


@pytest.mark.parametrize("value", ["yes please", 1, [], {"a": 1}])
def test_a_malformed_ramdisk_signed_is_refused_by_each_boot_interface(value):
    it = node(driver_info={"ramdisk_signed": value})
    with pytest.raises(InvalidDriverInfo, match="driver_info/ramdisk_signed must be true or false"):
        it.driver.boot.validate(it)


def test_secure_boot_is_switched_off_even_if_the_instance_is_forgotten(machine):
    """A tear-down removes the instance from the node even if the BMC refused to switch it off."""
    _, it = finish(node(instance_info=SECURE), boot_settings.for_instance)
    machine.refusal = Refused("not now")
    with pytest.raises(Refused, match="secure boot of node"):
        boot_settings.after_instance(replace(it, reports={}))
    machine.refusal = None
    forgotten = replace(it, instance_info={}, reports={})
    _, it = finish(forgotten, boot_settings.for_ramdisk)
    assert (False, {}) == (machine.secure, _of_instance(it))


def test_a_machine_without_secure_boot_is_torn_down(machine):
    machine.secure, machine.refusal = None, NotSupported("there is none")
    assert Done() == finish(node(instance_info=SECURE), boot_settings.after_instance)[0]


def test_secure_boot_waits_until_the_agent_is_gone(machine):
    machine.power = POWER_ON
    it = node(instance_info=SECURE)
    assert (True, Done()) == (boot_settings.is_postponed(it), boot_settings.for_instance(it))
    assert [] == machine.orders
    kept_on = replace(it, disable_power_off=True)
    assert not boot_settings.is_postponed(kept_on)
    finish(kept_on, boot_settings.for_instance)
    assert machine.secure


def test_the_instance_is_prepared_again_once_the_machine_is_off(machine):
    machine.power = POWER_ON
    it = node(instance_info=SECURE)
    boot = it.driver.boot
    boot.boot_instance_next(it)
    assert boot.INSTANCE_NEXT not in it.reports.get("driver_internal_info", {})
    machine.power = POWER_OFF
    boot.boot_instance_next(it)
    assert it.reports["driver_internal_info"][boot.INSTANCE_NEXT] is True


def _of_instance(it):
    return {
        name: fact
        for name, fact in it.driver_internal_info.items()
        if name == boot_settings.OF_INSTANCE
    }


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"instance_info": {"capabilities": "{"}}, "instance_info/capabilities: is no JSON"),
        ({"properties": {"capabilities": "uefi"}}, "properties/capabilities: .uefi. lacks"),
        ({"properties": {"capabilities": ["a"]}}, "properties/capabilities: must be an object"),
        ({"properties": {"capabilities": 1}}, "properties/capabilities: must be an object"),
        ({"properties": {"capabilities": {"boot_mode": []}}}, "boot_mode must be a text"),
        ({"properties": {"capabilities": "boot_mode:legacy"}}, "must be one of uefi, bios"),
        ({"instance_info": {"capabilities": {"secure_boot": "on"}}}, "must be one of true, false"),
        ({"properties": {"capabilities": "secure_boot:maybe"}}, "must be one of true, false"),
        (
            {"instance_info": {"capabilities": {"secure_boot": True, "boot_mode": "bios"}}},
            "secure_boot needs boot_mode uefi",
        ),
        (
            {"instance_info": SECURE, "properties": {"capabilities": "boot_mode:bios"}},
            "secure_boot needs boot_mode uefi, and properties/capabilities requests bios",
        ),
    ],
)
def test_wrong_capabilities_are_refused_with_their_field(fields, words):
    with pytest.raises(InvalidDriverInfo, match=words):
        capabilities.validate(node(**fields))


def test_secure_boot_is_refused_for_a_management_interface_without_it():
    it = target("ipmi", instance_info=SECURE)
    with pytest.raises(InvalidDriverInfo, match="management_interface ipmitool cannot change it"):
        it.driver.boot.validate(it)


def test_secure_boot_of_the_nodes_properties_is_a_capability_not_a_request():
    it = node(properties={"capabilities": "secure_boot:true"})
    capabilities.validate(it)
    assert not capabilities.requests_secure_boot(it)
