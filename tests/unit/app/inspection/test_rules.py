"""The engine of inspection rules: tables of conditions, actions and refused rules."""

import pytest

from app.inspection import rules
from app.inspection.subject import Subject
from drivers.core.errors import InspectionFailed
from drivers.core.target import Material
from tests.support.web import Handler, serving
from tests.unit.drivers.machines import OPTIONS

PORT = "11111111-2222-4333-8444-555555555555"
MATERIAL = Material(
    node={
        "uuid": "n", "name": "n1", "resource_class": None, "description": None, "retired": False,
        "properties": {"cpus": 8, "capabilities": "a:1,b:2"}, "extra": {"list": [1]},
        "driver_info": {"redfish_address": "https://192.0.2.7"},
    },
    ports=[{"uuid": PORT, "address": "52:54:00:00:00:01", "extra": {}, "pxe_enabled": True}],
    traits=["CUSTOM_OLD"],
)  # fmt: skip
INVENTORY = {
    "cpu": {"count": 8, "architecture": "x86_64"},
    "interfaces": [{"name": "eth0", "mac_address": "52:54:00:00:00:01"}, {"name": "eth1"}],
    "bmc_address": "192.0.2.7",
    "none": None,
    "password": "secret",
}


@pytest.fixture
def subject():
    return Subject.of(MATERIAL, INVENTORY, {"data": {"one": 1}}, OPTIONS)


def applied(subject, *actions, mask="always", **rule):
    rules.apply([{"uuid": "r", "actions": list(actions), **rule}], subject, mask)


def holds(subject, **condition):
    """Evaluate a condition: if it holds, the rule's action sets a value."""
    mark = {"op": "set-plugin-data", "args": {"path": "mark", "value": True}}
    wrong = rules.problems({"conditions": [condition], "actions": [mark]})
    assert [] == wrong
    applied(subject, mark, conditions=[condition])
    return subject.plugin_data.get("mark", False)


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("eq", {"values": ["{inventory[cpu][count]}", 8]}, True),
        ("eq", {"values": ["{inventory.cpu.count}", "8"]}, True),
        ("eq", ["{inventory.cpu.architecture}", "x86_64"], True),
        ("eq", [["{inventory.cpu.count}", 9]], False),
        ("eq", {"values": ["{inventory.cpu.count}-way", "8-way"]}, True),
        ("eq", {"values": [1, True], "force_strings": True}, False),
        ("!eq", ["{inventory.cpu.count}", 9], True),
        ("! eq", ["{inventory.cpu.count}", 8], False),
        ("lt", [2, "{inventory.cpu.count}", 10], True),
        ("lt", ["10", 9], False),
        ("lt", [8, "{inventory.cpu.count}"], False),
        ("gt", ["{node.properties.cpus}", "7.5"], True),
        ("is-empty", {"value": "{inventory.missing}"}, True),
        ("is-empty", {"value": "{inventory.cpu}"}, False),
        ("is-empty", {"value": []}, True),
        ("in-net", {"address": "{inventory.bmc_address}", "subnet": "192.0.2.0/24"}, True),
        ("in-net", ["198.51.100.1", "192.0.2.0/24"], False),
        ("matches", {"value": "{inventory.cpu.architecture}", "regex": "x86.*"}, True),
        ("matches", {"value": "{inventory.cpu.architecture}", "regex": "86"}, False),
        ("contains", {"value": "{inventory.cpu.architecture}", "regex": "86"}, True),
        ("one-of", {"value": "{inventory.cpu.count}", "values": [4, 8]}, True),
        ("one-of", {"value": "{inventory.cpu.count}", "values": ["16"]}, False),
        ("is-none", {"value": "{inventory.none}"}, True),
        ("is-none", {"value": "{inventory.cpu}"}, False),
        ("is-true", {"value": "yes"}, True),
        ("is-true", {"value": "{node.retired}"}, False),
        ("is-false", {"value": "{node.retired}"}, True),
        ("is-false", {"value": "no"}, True),
        ("eq", ["{inventory.interfaces[0].name}", "eth0"], True),
        ("eq", ["{node.__class__}", "{node.__class__}"], True),  # plain text
        ("eq", ["{a brace", "{a brace"], True),
    ],
)
def test_conditions(subject, op, args, expected):
    assert expected is holds(subject, op=op, args=args)


@pytest.mark.parametrize(
    ("multiple", "expected"),
    [(None, True), ("any", True), ("all", False), ("first", False), ("last", True)],
)
def test_multiple_selects_how_the_results_of_a_loop_are_combined(subject, multiple, expected):
    condition = {
        "op": "eq",
        "args": {"values": ["{item}", "{inventory.cpu.count}"]},
        "loop": [4, 16, 8],
    }
    assert expected is holds(subject, **condition, **({"multiple": multiple} if multiple else {}))


@pytest.mark.parametrize(
    ("op", "args", "place", "expected"),
    [
        ("set-attribute", ["/properties/memory", "{inventory.cpu.count}"],
         lambda s: s.node["properties"]["memory"], 8),
        ("set-attribute", {"path": "extra.deep.er", "value": [1]},
         lambda s: s.node["extra"]["deep"], {"er": [1]}),
        ("set-attribute", {"path": "resource_class", "value": "{inventory.cpu.count}"},
         lambda s: s.node["resource_class"], "8"),
        ("set-attribute", {"path": "driver_info/ipmi_address", "value": "{inventory[bmc_address]}"},
         lambda s: s.node["driver_info"]["ipmi_address"], "192.0.2.7"),
        ("extend-attribute", ["/extra/list", 2], lambda s: s.node["extra"]["list"], [1, 2]),
        ("extend-attribute", {"path": "/extra/list", "value": 1, "unique": True},
         lambda s: s.node["extra"]["list"], [1]),
        ("extend-attribute", ["/extra/new", 2], lambda s: s.node["extra"]["new"], [2]),
        ("del-attribute", ["/properties/cpus"], lambda s: "cpus" in s.node["properties"], False),
        ("del-attribute", ["/extra"], lambda s: s.node["extra"], {}),
        ("set-capability", ["b", 3], lambda s: s.node["properties"]["capabilities"], "a:1,b:3"),
        ("unset-capability", ["a"], lambda s: s.node["properties"]["capabilities"], "b:2"),
        ("add-trait", ["CUSTOM_NEW"], lambda s: s.traits, ["CUSTOM_NEW", "CUSTOM_OLD"]),
        ("remove-trait", ["CUSTOM_OLD"], lambda s: s.traits, []),
        ("set-plugin-data", ["a.b", 1], lambda s: s.plugin_data["a"], {"b": 1}),
        ("extend-plugin-data", ["a/b", 1], lambda s: s.plugin_data["a"], {"b": [1]}),
        ("unset-plugin-data", ["data.one"], lambda s: s.plugin_data["data"], {}),
        ("set-port-attribute", [PORT, "/extra/a", 1], lambda s: s.ports[0]["extra"], {"a": 1}),
        ("set-port-attribute", ["{inventory.interfaces[0].mac_address}", "pxe_enabled", False],
         lambda s: s.ports[0]["pxe_enabled"], False),
        ("extend-port-attribute", [PORT, "extra/a", 1], lambda s: s.ports[0]["extra"], {"a": [1]}),
        ("del-port-attribute", [PORT, "extra"], lambda s: s.ports[0]["extra"], {}),
        ("log", {"msg": "x", "level": "debug"}, lambda s: s.traits, ["CUSTOM_OLD"]),
    ],
)  # fmt: skip
def test_actions(subject, op, args, place, expected):
    action = {"op": op, "args": args}
    assert [] == rules.problems({"actions": [action]})
    applied(subject, action)
    assert expected == place(subject)


@pytest.mark.parametrize(
    ("op", "args", "message"),
    [
        ("fail", {"msg": "{inventory.cpu.count} are too few"}, "8 are too few"),
        ("set-attribute", ["/provision_state", "active"], "cannot be changed by rules"),
        ("set-attribute", ["/properties", "x"], "properties cannot be 'x'"),
        ("set-attribute", ["/retired", "maybe"], "retired cannot be 'maybe'"),
        ("set-attribute", ["/properties/cpus/x", 1], "properties/cpus/x is not an object"),
        ("extend-attribute", ["/properties/cpus", 1], "is not a list"),
        ("set-port-attribute", ["absent", "extra/a", 1], "has no port absent"),
        ("set-port-attribute", [PORT, "node_id", 1], "cannot be changed by rules"),
        ("log", ["x", "loudly"], "none of debug"),
        ("api-call", {"url": "http://127.0.0.1:1/", "retries": 0}, "api-call to"),
    ],
)
def test_an_action_that_fails_names_its_rule(subject, op, args, message):
    with pytest.raises(InspectionFailed, match="inspection rule the rule: ") as failed:
        applied(subject, {"op": op, "args": args}, description="the rule")
    assert message in str(failed.value)


def test_a_loop_runs_an_action_for_each_item(subject):
    action = {
        "op": "set-attribute",
        "args": {"path": "{item[path]}", "value": "{item[value]}"},
        "loop": [
            {"path": "extra/arch", "value": "{inventory.cpu.architecture}"},
            {"path": "extra/cpus", "value": "{inventory.cpu.count}"},
        ],
    }
    applied(subject, action)
    assert {"list": [1], "arch": "x86_64", "cpus": 8} == subject.node["extra"]


def test_rules_see_the_changes_of_earlier_rules_and_run_only_if_their_conditions_hold(subject):
    def setting(path, value):
        return {"op": "set-attribute", "args": {"path": path, "value": value}}

    condition = {"op": "eq", "args": ["{node.extra.first}", "yes"]}
    table = [
        {"uuid": "1", "actions": [setting("extra/first", "yes")]},
        {"uuid": "2", "actions": [setting("extra/second", "yes")], "conditions": [condition]},
        {"uuid": "3", "actions": [setting("extra/third", 1)], "conditions": [condition, {
            "op": "!eq", "args": [1, 1]}]},
    ]  # fmt: skip
    rules.apply(table, subject, "always")
    assert {"list": [1], "first": "yes", "second": "yes"} == subject.node["extra"]


@pytest.mark.parametrize(
    ("mask", "sensitive", "text"),
    [
        ("always", True, "***"), ("always", False, "***"), ("never", False, "secret"),
        ("sensitive", True, "secret"), ("sensitive", False, "***"),
    ],
)  # fmt: skip
def test_secrets_are_hidden_from_rules_by_setting(subject, mask, sensitive, text):
    action = {"op": "set-plugin-data", "args": ["seen", "{inventory.password}"]}
    applied(subject, action, mask=mask, sensitive=sensitive)
    assert text == subject.plugin_data["seen"]


@pytest.mark.parametrize(
    ("kind", "rule", "message"),
    [
        ("conditions", {}, "op and args"),
        ("conditions", {"op": "odd", "args": []}, "none of eq, lt"),
        ("conditions", {"op": "!!eq", "args": [1]}, "none of eq, lt"),
        ("conditions", {"op": "eq", "args": "x"}, "an object or a list"),
        ("conditions", {"op": "matches", "args": ["x"]}, "regex missing"),
        ("conditions", {"op": "eq", "args": {"values": [], "colour": 1}}, "colour unknown"),
        ("conditions", {"op": "eq", "args": [1], "multiple": "odd"}, "none of any, all"),
        ("conditions", {"op": "eq", "args": [1], "loop": 5}, "loop"),
        ("actions", {"op": "!fail", "args": ["x"]}, "none of fail"),
        ("actions", {"op": "fail", "args": {}}, "msg missing"),
        ("actions", {"op": "fail", "args": ["x", "y"]}, "too many"),
        ("actions", {"op": "fail", "args": ["x"], "multiple": "any"}, "multiple: unknown"),
    ],
)
def test_an_invalid_rule_is_refused_with_the_reason(kind, rule, message):
    (wrong,) = rules.problems({kind: [rule]})
    assert wrong.startswith(f"{kind}/0: ")
    assert message in wrong


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "a list of rules"),
        ("- {}", "rule 0: an object with actions"),
        ("- actions: [{op: odd, args: {}}]", "rule 0: actions/0: op: 'odd'"),
        ("- {actions: [{op: fail, args: {msg: x}}], phase: late}", "phase: 'late'"),
        ("- {actions: [{op: fail, args: {msg: x}}], priority: high}", "priority: 'high'"),
        ("- [", "rules.yaml"),
    ],
)
def test_an_invalid_file_of_rules_is_refused(tmp_path, text, message):
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"rules\.yaml") as refused:
        rules.read(str(path))
    assert message in str(refused.value)


def test_rules_of_a_file_may_have_any_priority_and_get_uuids(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("- {actions: [{op: fail, args: {msg: x}}], priority: -5}\n")
    (rule,) = rules.read(str(path))
    assert (-5, "00000000-0000-0000-0000-000000000000") == (rule["priority"], rule["uuid"])


def test_an_api_call_has_its_headers_and_is_retried(subject):
    calls = []

    class Once(Handler):
        def do_GET(self):
            calls.append((self.path, self.headers["X-Token"]))
            self.answer(503 if len(calls) == 1 else 200)

    with serving(Once) as server:
        url = f"{server.url}/{{node.name}}"
        args = {"url": url, "headers": {"X-Token": "t"}, "backoff_factor": 0}
        applied(subject, {"op": "api-call", "args": args})
    assert [("/n1", "t")] * 2 == calls
