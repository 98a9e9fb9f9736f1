"""Expressions of selection: `where` of lists of nodes, of counts and of rollouts."""

import random
from datetime import datetime, timedelta
from urllib.parse import quote

import pytest
from sqlalchemy import insert, select

from app.models import Node, NodeTrait, Port
from app.selection import conditions, grammar
from app.selection.tree import All, Comparison, Not, Operator, Pattern, Some
from tests.contract.conftest import fault

NAMES = [
    None,
    "rack1-u1",
    "rack1-u2",
    "Rack1-u3",
    "rack2_u1",
    "rack%u1",
    "rack[1]",
    "a?b",
    "100",
    "ärger",
]
JSON = [None, "r1", "R1", "", "a*b", "4", 4, 4.5, 1e16, -3, 0.1, True, False, [1], {"a": 1}, "1" * 20,
        "007", "ÄB", "true"]  # fmt: skip
ERRORS = [None, "Timed out after 30 s", "timed OUT", "Ünreachable", "100%_done"]
TRAITS = [(), ("CUSTOM_A",), ("CUSTOM_A", "HW_B"), ("HW_B",)]
STATES = ["available", "clean failed", "clean wait", "active"]
LONG_AGO = datetime(2020, 1, 1)
FLAT = {"name": NAMES, "last_error": ERRORS, "provision_state": STATES}
PATTERNS = [
    "rack1-*",
    "*u1",
    "rack*1",
    "*",
    "r?ck*",
    "rack_*",
    "rack[1*",
    "*%*",
    "[*",
    "1*",
    "a**b",
    "T*",
    "*a*e*",
]


both = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


@pytest.fixture
def rows(api):
    """Nodes with values that databases compare in different ways; as dictionaries."""
    chance = random.Random(7)
    rows = []
    for number in range(60):
        value = chance.choice(JSON)
        rows.append({
            "id": number + 1, "uuid": f"00000000-0000-4000-8000-{number:012d}",
            "name": NAMES[number] if number < len(NAMES) else None, "driver": "fake-hardware",
            "provision_state": chance.choice(STATES), "last_error": chance.choice(ERRORS),
            "maintenance": chance.random() < 0.5,
            "extra": {"u": value, "deep": {"u": value}} if chance.random() < 0.8 else {},
            "provision_updated_at": chance.choice([None, LONG_AGO, datetime(2021, 2, 3, 4)]),
        })  # fmt: skip
    with api.runtime.transaction() as session:
        session.execute(insert(Node), rows)
        traits = {row["id"]: chance.choice(TRAITS) for row in rows}
        node_traits = [
            {"node_id": node, "trait": trait} for node in traits for trait in traits[node]
        ]
        session.execute(insert(NodeTrait), node_traits)
    for row in rows:
        row["trait"] = traits[row["id"]]
    return rows


def selected(api, condition, **query):
    """Return the UUIDs of the nodes that an expression selects."""
    filters = "".join(f"&{name}={value}" for name, value in query.items())
    answer = api("GET", f"/v1/nodes?fields=uuid&where={quote(condition)}{filters}")
    assert 200 == answer.status_code, (condition, answer.text)
    return [node["uuid"] for node in answer.json["nodes"]]


# an evaluation in Python, which knows nothing of SQL


def lowered(text):
    return "".join(sign.lower() if sign.isascii() else sign for sign in text)


def fits(text, parts):
    if len(parts) == 1:
        return text == parts[0]
    if not text.startswith(parts[0]):
        return False
    remainder = text[len(parts[0]) :]
    for part in parts[1:-1]:
        place = remainder.find(part)
        if place < 0:
            return False
        remainder = remainder[place + len(part) :]
    return remainder.endswith(parts[-1])


def values_of(row, comparison):
    if comparison.keys:
        document = row[comparison.field]
        for key in comparison.keys:
            document = document.get(key) if isinstance(document, dict) else None
        return [document]
    value = row[comparison.field]
    return value if isinstance(value, tuple) else [value]


def passes(value, comparison, target):
    operator = comparison.operator
    if value is None or isinstance(value, (list, dict)):
        return False
    if isinstance(target, (bool, datetime, timedelta)):
        if isinstance(target, timedelta):
            target = datetime(2026, 11, 27) - target
        return {"=": value == target, ">=": value >= target, "<": value < target,
                ">": value > target, "<=": value <= target}[operator]  # fmt: skip
    digits = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 15
    is_number = digits or (isinstance(value, (int, float)) and not isinstance(value, bool))
    number = float(value) if is_number else None
    if isinstance(target, float):
        return number is not None and {
            "<": number < target, "<=": number <= target, ">": number > target, ">=": number >= target,
        }[operator]  # fmt: skip
    is_equal = comparison.keys and isinstance(target, str) and operator == Operator.EQUAL
    if is_equal and grammar.is_number(target) and number == float(target):
        return True
    if isinstance(value, float):
        return False
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(target, Pattern):
        return fits(text, target.parts)
    if operator == Operator.CONTAINS:
        return lowered(target) in lowered(text)
    return text == target


def evaluate(tree, row):
    match tree:
        case All(parts=parts):
            return all(evaluate(part, row) for part in parts)
        case Some(parts=parts):
            return any(evaluate(part, row) for part in parts)
        case Not(part=part):
            return not evaluate(part, row)
        case Comparison(values=targets):
            return any(
                passes(value, tree, target) for value in values_of(row, tree) for target in targets
            )
    raise AssertionError(tree)


def comparison(chance):
    field = chance.choice(["name", "last_error", "extra.u", "extra.deep.u", "trait", "provision_state",
                           "maintenance", "provision_updated_at"])  # fmt: skip
    if field == "maintenance":
        return chance.choice(["maintenance", "maintenance=no", "maintenance != true"])
    if field == "provision_updated_at":
        return field + chance.choice([" since 1w", " before 2d", " >= 2021-02-03T04:00:00", "<2021-01-01",
                                      " since 2021-02-03T05:00+02:00"])  # fmt: skip
    if field == "provision_state":
        return field + chance.choice(
            ["=clean failed", "!=active", "=clean*", "~CLEAN", " in (active, clean wait)"]
        )
    if field.startswith("extra") and chance.random() < 0.4:
        return (
            field
            + chance.choice(["<", "<=", ">", ">="])
            + chance.choice(["4", "-3", "4.5", "7", "0.1"])
        )
    pool = TRAITS[2] if field == "trait" else FLAT.get(field, JSON)
    pool = [
        str(value) for value in pool if value is not None and not isinstance(value, (list, dict))
    ]
    value = chance.choice([*pool, "nonesuch"])
    text = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    form = chance.randrange(5)
    if form == 0:
        return f"{field} not in ({text}, {chance.choice(PATTERNS)})"
    if form == 1:
        return f'{field}~{text[: max(2, len(text) // 2)]}"'
    if form == 2:
        return f"{field}!={text}"
    return f"{field}={chance.choice(PATTERNS) if form == 3 else text}"


def expression(chance, depth=0):
    form = chance.random()
    if depth > 3 or form < 0.4:
        return comparison(chance)
    parts = [expression(chance, depth + 1) for _ in range(chance.randint(2, 3))]
    if form < 0.55:
        return f"not ({parts[0]})"
    return "(" + chance.choice([" and ", " or ", " "]).join(parts) + ")"


@both
def test_databases_select_what_an_evaluation_in_python_selects(api, rows):
    chance = random.Random(11)
    some = 0
    for _ in range(250):
        condition = expression(chance)
        tree = conditions.parse(condition)
        right = [row["uuid"] for row in rows if evaluate(tree, row)]
        assert right == selected(api, condition), condition
        some += 0 < len(right) < len(rows)
    assert some > 100  # most say something


@both
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "a*"), ("name", "a"), ("trait", "A*"), ("failure_code", "a*"), ("bmc", "a"), ("bmc", "a*"),
        ("extra.rack", "a"), ("extra.rack", "1"), ("maintenance", "1"), ("hold", "a*"),
    ],
)  # fmt: skip
def test_the_longest_list_of_values_is_selected_by_or_refused(api, rows, field, value):
    """SQLite refuses conditions with a thousand parts; PostgreSQL takes many seconds for them."""
    largest_number = (4000 - len(field)) // (len(value) + 1)
    for number, statuses in ((100, {200}), (largest_number, {200, 400})):
        condition = f"{field} in ({','.join([value] * number)})"
        answer = api("GET", f"/v1/nodes?where={quote(condition)}")
        assert answer.status_code in statuses, answer.text


def test_a_list_is_read_page_by_page(api, rows):
    condition = "maintenance or extra.u=*"
    whole = selected(api, condition)
    page = api("GET", f"/v1/nodes?limit=7&where={quote(condition)}").json
    pages = [node["uuid"] for node in page["nodes"]]
    while "next" in page:
        page = api("GET", page["next"]).json
        pages += [node["uuid"] for node in page["nodes"]]
    assert len(whole) > 14
    assert whole == pages


@pytest.mark.parametrize(
    ("condition", "place", "hint"),
    [
        ("provison_state=active", 1, "the nearest is 'provision_state'"),
        ("driver=x provision_state=availabel", 26, "the nearest is 'available'"),
        ("hold=repair", 6, "scheduling"), ("maintenance=perhaps", 13, "true or false"),
        ("driver<3", 7, "=, !=, in, ~"), ("extra.u>x", 9, "numbers"), ("(a or b", 8, "')'"),
        ("a)", 2, "')'"), ("a or", 5, "expected"), ("and a", 1, "missing before 'and'"),
        ("name=", 6, "missing"), ("name in (a b)", 12, "','"), ("name='a", 6, "quote"),
        ("created_at since yesterday", 18, "8h"), ("name=*a*b*c*d*", 6, "wildcards"),
        ("not " * 30 + "a", 81, "levels"), ("name=a " * 101, 701, "at most 100"), ("a " * 11, 21, "at most 10"),
        ("driver_info.redfish_password~a", 1, "no field"), ("instance_info.image_url~a", 1, "no field"),
        ("name in (a", 11, "','"), ("created_at in (8h)", 16, "since"), ("", 1, "expected"),
        ("created_at since 99999999999h", 18, "span"), ("created_at since 99999w", 18, "days"), ("a\0", 2, "NUL"), ("name=" + "a" * 256, 6, "long"),
    ],
)  # fmt: skip
def test_a_wrong_expression_is_refused_with_its_place_and_what_would_be_right(
    api, condition, place, hint
):
    answer = api("GET", f"/v1/nodes?where={quote(condition)}")
    assert 400 == answer.status_code, answer.text
    text = fault(answer)["faultstring"]
    assert hint in text
    assert "where" in text
    assert "\0" in condition or f"Character {place} of where:" in text


@both
def test_any_text_is_an_expression_or_refused(api):
    chance = random.Random(3)
    parts = ["name", "extra.u", "created_at", "=", "!=", "~", "<", " in ", "(", ")", " not ", " or ", " and ",
             "'", '"', "\\", "*", ",", "8h", "since ", "999999w", "2026-13-01", "x", " ", "%", "_", "[",
             "0001-01-01T00:00+10:00", "-1", "ä", "1" * 15]  # fmt: skip
    answers = set()
    for _ in range(300):
        condition = "".join(chance.choice(parts) for _ in range(chance.randint(1, 9)))
        answers.add(api("GET", f"/v1/nodes?where={quote(condition)}").status_code)
    assert {200, 400} == answers


@both
def test_ports_addresses_and_free_words_find_a_node(api):
    node = api.node(
        name="rack1-u1", driver_info={"redfish_address": "https://10.0.0.5:8000/redfish"},
        last_error="Timed out", properties={"memory_mb": "65536", "cpus": 8},
    )["uuid"]  # fmt: skip
    other = api.node(driver_info={"ipmi_address": "10.0.0.57"}, provision_state="clean failed")[
        "uuid"
    ]
    hidden = api.node(driver_info={"redfish_address": "https://me:pw@10.0.0.5"})["uuid"]
    with api.runtime.transaction() as session:
        ident = session.scalar(select(Node.id).where(Node.uuid == node))
        session.execute(
            insert(Port), [{"uuid": node, "node_id": ident, "address": "aa:bb:cc:dd:ee:ff"}]
        )
    for condition in (
        "mac=AA:BB:CC:DD:EE:FF", "mac=aa:bb*", "BB:CC:dd", "bmc=10.0.0.5", "bmc=https://10.0.0.*",
        "OUT", "ack1 'timed out'", "properties.memory_mb >= 32768 properties.memory_mb < 65537",
        "properties.cpus=8", "name in (rack1-u1, rack1-u2)", node[:13], "rack1-*", "8000",
    ):  # fmt: skip
        assert [node] == selected(api, condition), condition
    assert {node, other} == set(selected(api, "bmc=10.0.0.5*"))
    assert [other] == selected(api, "clean failed")
    assert hidden not in selected(api, "bmc~pw or bmc=*")


def test_children_are_selected_by_their_parent(api):
    parent = api.node()["uuid"]
    child = api.node(parent_node=parent)["uuid"]
    assert [parent] == selected(api, "driver=fake-hardware")
    assert [child] == selected(api, f"parent_node={parent}")
    assert {parent, child} == set(selected(api, "driver=fake-hardware", include_children="true"))


def test_a_field_that_is_newer_than_the_version_is_refused(api):
    assert 406 == api.at("1.50").__call__("GET", "/v1/nodes?where=not%20shard=a").status_code
    assert 200 == api.at("1.82").__call__("GET", "/v1/nodes?where=not%20shard=a").status_code


@both
def test_counts_and_rollouts_take_the_same_expression(api):
    failed = api.node(provision_state="clean failed", extra={"rack": "r1"})["uuid"]
    api.node(provision_state="clean failed", extra={"rack": "r2"})
    condition = "provision_state=clean failed and extra.rack=r1"
    counts = api("GET", f"/v1/provision_states?where={quote(condition)}").json
    assert 1 == counts["nodes"]
    body = {"target": "manage", "nodes": {"where": condition}, "dry_run": True}
    plan = api("POST", "/v1/rollouts", body)
    assert 200 == plan.status_code, plan.text
    assert [failed] == [node["node_uuid"] for node in plan.json["nodes"]]
    wrong = api("POST", "/v1/rollouts", body | {"nodes": {"where": "rak=1"}})
    assert 400 == wrong.status_code
