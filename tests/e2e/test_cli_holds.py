"""`ingot hold`: holds against a real service, up to their expiry."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.command_line import piped
from tests.support.fleet import Fleet, until


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet"), conductors=1) as fleet:
        for name in ("n1", "n2"):
            node = {"name": name, "driver": "fake-hardware", "resource_class": "small"}
            fleet._create("nodes", node)
        yield fleet


def test_a_hold_from_its_creation_to_its_end(ingot):
    hold = ingot(
        "hold", "create", "n1", "--kind", "hardware", "--reason", "new DIMM", "--for", "4h",
        "-o", "json",
    ).read()  # fmt: skip
    name = hold["uuid"]
    assert ("hardware", "new DIMM") == (hold["kind"], hold["reason"])
    refused = ingot("node", "provision-state", "n1", "manage", status=1)
    assert f"is held: hardware hold {name}" in refused.errors[-1]
    assert "because: new DIMM" in refused.errors[-1]
    explanation = ingot("node", "why", "n1")
    assert any(f"Held by a hardware hold {name}" in line for line in explanation.lines), explanation
    shown_hold = ingot("hold", "show", name, "-o", "json").read()
    assert hold == shown_hold
    (listed,) = ingot("hold", "list", "--node", "n1", "--kind", "hardware", "-o", "json").read()
    assert name == listed["uuid"]
    assert [] == ingot("hold", "list", "--expired-before", "2026-01-01", "-o", "json").read()
    nodes = ingot("node", "list", "--fields", "name,holds", "-o", "json").read()
    assert {"n1": ["hardware"], "n2": []} == {node["name"]: node["holds"] for node in nodes}
    held_nodes = ingot(
        "node", "list", "--hold", "hardware", "--fields", "name", "-o", "json"
    ).read()
    assert [{"name": "n1"}] == held_nodes
    assert [] == ingot("node", "list", "--hold", "scheduling", "-o", "json").read()
    refused = ingot("node", "list", "--hold", "coffee", status=1)
    assert "'coffee' is not one of" in refused.errors[-1]
    assert "(hold)" in refused.errors[-1]
    later = ingot("hold", "extend", name, "--for", "2d", "--reason", "DIMM ordered", "-o", "json")
    assert later.read()["expires_at"] > hold["expires_at"]
    (line,) = ingot("hold", "extend", name, "--unlimited").lines
    assert f"{name}: hardware hold, until it is ended" == line
    assert [f"{name}: ended"] == ingot("hold", "delete", name).lines
    assert [] == ingot("hold", "list", "-o", "json").read()
    ingot("hold", "show", name, status=1)


def test_an_expired_hold_is_deleted_with_an_event(ingot, fleet):
    ingot(
        "hold", "create", "--where", "resource_class=small", "--yes", "--kind", "scheduling",
        "--reason", "move", "--for", "1d",
    )  # fmt: skip
    holds = ingot("hold", "list", "-o", "json").read()
    assert 2 == len(holds)
    position = fleet.get("events")["last"]
    for hold in holds:
        soon = datetime.now(UTC) + timedelta(seconds=20)
        ingot("hold", "extend", hold["uuid"], "--until", soon.isoformat())
    until(lambda: not fleet.get("holds")["holds"], "the deletion of the expired holds")
    events = fleet.get("events", after=position, type="node.hold")["events"]
    assert ["scheduling"] * 2 == [event["before"] for event in events if event["after"] is None]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("create", "n1", "--kind", "coffee", "--reason", "x"), "'coffee' is not one of"),
        (("create", "n1", "--kind", "hardware", "--reason", "x", "--for", "soon"), "--for: 'soon'"),
        (
            ("create", "n1", "--kind", "hardware", "--reason", "x", "--for", "1h", "--until", "x"),
            "--until, --for: one of both",
        ),
        (("show", "n1"), "'n1' is not the UUID of a hold"),
        (("extend", "00000000-0000-0000-0000-000000000000"), "nothing to change"),
    ],
)
def test_wrong_words_are_named(ingot, fleet, words, message):
    answer = piped(fleet.url, "hold", *words)
    assert answer.status in (1, 2), answer
    assert message in answer.errors[-1]
