"""Orders of BIOS settings: types of values, refusals before anything is sent, and effects."""

import pytest

from drivers.core.errors import InvalidDriverInfo, NotSupported
from drivers.core.steps import Done, Failed
from drivers.redfish.bios_values import Setting, same
from drivers.simulator.redfish_bmc.documents import REGISTRY, ROOT, SYSTEM
from tests.unit.drivers.documents import having, without
from tests.unit.drivers.redfish.scripted import LOST, ScriptedBmc, error, run, task

BIOS, SETTINGS = f"{SYSTEM}/Bios", f"{SYSTEM}/Bios/Settings"
RESET = f"{BIOS}/Actions/Bios.ResetBios"


@pytest.fixture
def bmc(monkeypatch):
    return ScriptedBmc().install(monkeypatch)


@pytest.fixture
def node(bmc):
    return bmc.node(uuid=bmc.machine.uuid)


def apply(node, crash=lambda _call: False, **values):
    settings = [{"name": name, "value": value} for name, value in values.items()]
    return run(node, "bios", "apply_configuration", crash=crash, settings=settings)[0]


def sent(bmc):
    return [body["Attributes"] for body in bmc.sent("Bios/Settings")]


# Types


def integer(**facts):
    return Setting("Cores", 8, {"Type": "Integer", **facts})


def choice(*names):
    values = [{"ValueName": name} for name in names]
    return Setting("Turbo", "On", {"Type": "Enumeration", "Value": values})


@pytest.mark.parametrize(
    ("setting", "value", "converted"),
    [
        (Setting("a", 8), "4", 4),
        (Setting("a", 8), " 4 ", 4),
        (Setting("a", 8), 4.0, 4),
        (Setting("a", 8), "4.0", 4),
        (Setting("a", True), "false", False),
        (Setting("a", True), "True", True),
        (Setting("a", 1.5), "2.5", 2.5),
        (Setting("a", "On"), "Off", "Off"),
        (Setting("a", "8"), 4, "4"),
        (Setting("a", None), 4, 4),
        (Setting("a", "8", {"Type": "Integer"}), "4", 4),
        (Setting("a", 8, {"Type": "Odd"}), "4", 4),
        (integer(LowerBound=1, UpperBound=8), "8", 8),
        (choice("On", "Off"), "Off", "Off"),
        (choice("1", "2"), 2, "2"),
        (choice(), "Any", "Any"),
        (Setting("a", "x", {"Type": "String", "MaxLength": 3}), "abc", "abc"),
        (Setting("a", "x", {"Type": "Boolean"}), "true", True),
    ],
)
def test_a_value_is_converted_to_the_type_of_the_registry_or_of_the_present_value(
    setting, value, converted
):
    result = setting.converted(value)
    assert (converted, type(converted)) == (result, type(result))


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        (Setting("a", 8), "four", "a number"),
        (Setting("a", 8), 4.5, "a whole number"),
        (Setting("a", 8), "inf", "a whole number"),
        (Setting("a", 8), True, "a whole number"),
        (Setting("a", 8), None, "a whole number"),
        (Setting("a", True), 1, "true or false"),
        (Setting("a", True), "yes", "true or false"),
        (Setting("a", "On"), True, "text"),
        (Setting("a", "On"), ["On"], "text"),
        (Setting("a", None), {}, "text, a number"),
        (integer(LowerBound=2), 1, "at least 2"),
        (integer(UpperBound=8), "9", "at most 8"),
        (choice("On", "Off"), "on", "one of On, Off"),
        (choice("On", "Off"), None, "text"),
        (Setting("a", "x", {"Type": "String", "MinLength": 2}), "x", "at least 2 characters"),
        (Setting("a", "x", {"Type": "String", "MaxLength": 2}), "xyz", "at most 2 characters"),
        (Setting("a", None, {"Type": "Password"}), "x", "passwords are not"),
        (integer(ReadOnly=True), 8, "read-only"),
        (integer(Immutable=True), 8, "read-only"),
    ],
)
def test_a_value_that_a_setting_cannot_have_is_refused_with_its_name(setting, value, reason):
    with pytest.raises(InvalidDriverInfo, match=reason) as raised:
        setting.converted(value)
    assert str(raised.value).startswith(f"settings: {setting.name} ")


@pytest.mark.parametrize(
    ("desired", "present", "expected"),
    [
        (4, 4, True), (4, 4.0, True), (4, "4", True), (True, "true", True), ("4", 4, True),
        (2.5, "2.5", True), (1, True, False), (True, 1, False), (4, None, False),
        ("On", "on", False), ("None", None, False), (4, "four", False), (4, [4], False),
    ],
)  # fmt: skip
def test_values_are_compared_by_the_type_of_the_desired_one(desired, present, expected):
    assert expected is same(desired, present)


# Orders


@pytest.mark.parametrize("change", [None, without("RegistryEntries"), lambda _: b"["])
def test_a_text_is_sent_as_a_number_with_and_without_a_registry(bmc, node, change):
    bmc.changes[f"{REGISTRY}/en"] = change
    assert Done() == apply(node, SerialBaudRate="9600")
    assert [{"SerialBaudRate": 9600}] == sent(bmc)
    assert 9600 == bmc.machine.bios["SerialBaudRate"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"SerialBaudRate": "fast"}, "settings: SerialBaudRate cannot be 'fast'"),
        ({"SerialBaudRate": 100}, "at least 9600"),
        ({"NumLock": "Blinking"}, "settings: NumLock cannot be 'Blinking': one of On, Off"),
        ({"NumLock": "Off", "Turbo": 1}, "the BIOS has no Turbo"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_is_sent(bmc, node, values, reason):
    outcome = apply(node, **values)
    assert isinstance(outcome, InvalidDriverInfo)
    assert reason in str(outcome)
    assert [] == bmc.orders


def test_a_read_only_setting_and_two_values_are_refused(bmc, node):
    settings = [{"name": "NumLock", "value": "On"}, {"name": "NumLock", "value": "Off"}]
    raised, _ = run(node, "bios", "apply_configuration", settings=settings)
    assert "NumLock has two values" in str(raised)
    bmc.changes[f"{REGISTRY}/en"] = having(
        RegistryEntries={"Attributes": [{"AttributeName": "NumLock", "ReadOnly": True}]}
    )
    assert "NumLock is read-only" in str(apply(node, NumLock="Off"))
    assert [] == bmc.orders


def test_the_registry_is_read_again_after_an_update(bmc, node):
    assert "one of On, Off" in str(apply(node, NumLock="Auto"))
    entry = {"AttributeName": "NumLock", "Type": "Enumeration", "Value": [{"ValueName": "Auto"}]}
    bmc.changes[f"{REGISTRY}/en"] = having(RegistryEntries={"Attributes": [entry]})
    bmc.scripts["PATCH", SETTINGS] = [
        lambda: (bmc.machine.bios_pending.update(NumLock="Auto"), (204, {}, None))[1]
    ]
    assert Done() == apply(node, NumLock="Auto")


def test_present_values_are_not_ordered_again(bmc, node):
    assert Done() == apply(
        node, NumLock="On", SerialBaudRate=str(bmc.machine.bios["SerialBaudRate"])
    )
    assert [] == bmc.orders


def pending(bmc, **values):
    bmc.changes[SETTINGS] = having(Attributes=values)


def test_a_pending_change_of_a_present_value_is_replaced(bmc, node):
    pending(bmc, NumLock="Off")
    assert Done() == apply(node, NumLock="On")
    assert [{"NumLock": "On"}] == sent(bmc)


def test_other_pending_settings_are_named(bmc, node):
    pending(bmc, SerialBaudRate=9600)
    assert Done({"applied_too": ["SerialBaudRate"]}) == apply(node, NumLock="Off")


def test_a_value_that_the_bios_does_not_take_fails_with_both(bmc, node):
    bmc.scripts["PATCH", SETTINGS] = [(204, {}, None)]
    messages = {"Messages": [{"MessageId": "a.b", "Message": "needs UEFI", "Severity": "Critical"}]}
    settings = {
        "SettingsObject": {"@odata.id": SETTINGS.replace("{id}", bmc.machine.uuid)},
        **messages,
    }
    bmc.changes[BIOS] = having(**{"@Redfish.Settings": settings})
    outcome = apply(node, NumLock="Off")
    assert (
        "the change of BIOS setting NumLock was ordered, and has had no effect: NumLock is 'On', not"
        " 'Off' (needs UEFI)"
    ) == outcome.reason
    assert 1 == len(bmc.sent("Bios/Settings"))


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([task("Completed", "Critical", "refused by POST")], "failed: Completed: refused by POST"),
        ([task("Exception", "OK", "oops")], "failed: Exception: oops"),
        ([task("Completed")], "was ordered, and has had no effect: NumLock is 'On'"),
        ([error(404)], "was ordered, and has had no effect: NumLock is 'On'"),
    ],
)
def test_the_task_of_a_change_is_judged_and_its_values_are_compared(bmc, node, answers, reason):
    path = f"{ROOT}/TaskService/Tasks/JID_1"
    bmc.scripts = {
        ("PATCH", SETTINGS): [(202, {"Location": path}, None)], ("GET", path): answers,
    }  # fmt: skip
    outcome = apply(node, NumLock="Off")
    assert isinstance(outcome, Failed)
    assert reason in outcome.reason


def test_a_lost_change_is_recognised_by_the_pending_settings(bmc, node):
    def take():
        bmc.machine.bios_pending["NumLock"] = "Off"
        pending(bmc, NumLock="Off")
        return LOST

    bmc.scripts["PATCH", SETTINGS] = [take]
    assert Done() == apply(node, NumLock="Off")
    assert 1 == len(bmc.sent("Bios/Settings"))


def test_a_lost_change_that_is_not_pending_is_sent_once_more(bmc, node):
    bmc.scripts["PATCH", SETTINGS] = [LOST, None]
    assert Done() == apply(node, NumLock="Off")
    assert 2 == len(bmc.sent("Bios/Settings"))
    bmc.scripts["PATCH", SETTINGS] = [LOST]
    assert "ordered, not confirmed" in apply(node, NumLock="On").reason
    assert 4 == len(bmc.sent("Bios/Settings"))


def test_a_refused_change_restarts_nothing(bmc, node):
    bmc.scripts["PATCH", SETTINGS] = [error(400, "a job is pending")]
    outcome = apply(node, NumLock="Off")
    assert "NumLock was not ordered: 400: a job is pending" in outcome.reason
    assert [] == bmc.sent("ComputerSystem.Reset")


@pytest.mark.parametrize("number", range(8))
def test_a_death_at_any_call_changes_settings_once(bmc, node, number):
    def take():
        bmc.machine.bios_pending["NumLock"] = "Off"
        pending(bmc, NumLock="Off")
        return 204, {}, None

    bmc.scripts["PATCH", SETTINGS] = [take]
    assert Done() == apply(node, crash=lambda call: call == number, NumLock="Off")
    assert 1 == len(bmc.sent("Bios/Settings"))


def seconds_of_waits(node, crash):
    waits = []
    settings = [{"name": "NumLock", "value": "Off"}]
    outcome, _ = run(
        node, "bios", "apply_configuration", crash=crash, waits=waits, settings=settings
    )
    assert Done() == outcome
    return sum(wait.poll_after for wait in waits)


@pytest.mark.parametrize("power", ["On", "Off"])
@pytest.mark.parametrize("number", range(3))
def test_a_death_before_the_restart_does_not_put_its_power_orders_in_doubt(
    bmc, node, number, power
):
    """Each doubt takes ten seconds, in which the power state has to stay as it is."""

    def take():
        bmc.machine.bios_pending["NumLock"] = "Off"
        pending(bmc, NumLock="Off")
        return 204, {}, None

    bmc.machine.power = power
    bmc.scripts["PATCH", SETTINGS] = [take]
    assert 10 > seconds_of_waits(node, lambda call: call == number)


def test_the_apply_time_is_named_where_the_bmc_lists_it(bmc, node):
    path = SETTINGS.replace("{id}", bmc.machine.uuid)
    times = {"SettingsObject": {"@odata.id": path}, "SupportedApplyTimes": ["Immediate", "OnReset"]}
    bmc.changes[BIOS] = having(**{"@Redfish.Settings": times})
    assert Done() == apply(node, NumLock="Off")
    (body,) = bmc.sent("Bios/Settings")
    assert "OnReset" == body["@Redfish.SettingsApplyTime"]["ApplyTime"]


def test_a_bios_without_a_settings_resource_is_changed_itself(bmc, node):
    bmc.changes[BIOS] = without("@Redfish.Settings")
    bmc.scripts["PATCH", BIOS] = [
        lambda: (bmc.machine.bios.update(NumLock="Off"), (204, {}, None))[1]
    ]
    assert Done() == apply(node, NumLock="Off")


# Reset to the defaults


def reset(node):
    return run(node, "bios", "factory_reset")[0]


def test_a_reset_without_an_effect_fails(bmc, node):
    bmc.machine.bios["NumLock"] = "Off"
    bmc.scripts["POST", RESET] = [(204, {}, None)]
    outcome = reset(node)
    assert "the reset of the BIOS settings was ordered, and has had no effect" in outcome.reason
    assert 1 == len(bmc.sent("ResetBios"))


def test_a_reset_of_defaults_or_without_a_registry_is_believed(bmc, node):
    bmc.scripts["POST", RESET] = [(204, {}, None)]
    assert Done() == reset(node)
    bmc.machine.bios["NumLock"] = "Off"
    bmc.changes[f"{REGISTRY}/en"] = None
    assert Done() == reset(node)


@pytest.mark.parametrize(
    ("status", "bodies"), [(415, [None, {}]), (400, [None, {}]), (403, [None])]
)
def test_a_reset_gets_a_body_where_the_bmc_needs_it(bmc, node, status, bodies):
    bmc.machine.bios["NumLock"] = "Off"
    bmc.scripts["POST", RESET] = [error(status), None]
    assert (len(bodies) == 2) == (Done() == reset(node))
    assert bodies == bmc.sent("ResetBios")


@pytest.mark.parametrize(
    ("is_taken", "has_registry", "reason"),
    [
        (True, True, None),
        (False, True, "was ordered, and has had no effect: no setting was reset, NumLock among"),
        (True, False, "was ordered, not confirmed"),
    ],
)
def test_a_lost_reset_is_never_repeated(bmc, node, is_taken, has_registry, reason):
    """The restart shows whether the BMC has it, if the defaults are known."""

    def take():
        if is_taken:
            bmc.machine.bios_pending["NumLock"] = "On"
        return LOST

    bmc.machine.bios["NumLock"] = "Off"
    bmc.scripts["POST", RESET] = [take]
    if not has_registry:
        bmc.changes[f"{REGISTRY}/en"] = None
    outcome = reset(node)
    assert Done() == outcome if reason is None else reason in outcome.reason
    assert 1 == len(bmc.sent("ResetBios"))


def test_a_bmc_that_cannot_reset_its_bios_is_named(bmc, node):
    bmc.changes[BIOS] = without("Actions")
    assert isinstance(reset(node), NotSupported)
