"""Commands against the application: times in words, secrets, questions by harm, errors for people."""

import json

import pytest
from sqlalchemy import select, update

from app.db.clock import after
from app.lifecycle.provision_states import State
from app.models import ChangeEvent, Node, Operation
from tests.support.inside_commands import Ingot

PASSWORD = "not-for-arguments"


@pytest.fixture
def ingot(api):
    return Ingot(api.client.application)


@pytest.fixture
def rack(api):
    """Twelve nodes of a shard."""
    for number in range(12):
        api("POST", "/v1/nodes", {"driver": "redfish", "name": f"u{number}", "shard": "row7"})
    return [f"u{number}" for number in range(12)]


SHARD = ("--where", "shard=row7")


def ago(seconds):
    return after(-float(seconds))


# times


@pytest.mark.parametrize(
    ("since", "names"),
    [("90m", {"u1"}), ("3h", {"u1", "u2"}), ("1w", {"u1", "u2", "u3"}), ("2000-01-01", {"u1", "u2", "u3"})],
)  # fmt: skip
def test_operations_since_a_time(api, ingot, since, names):
    ages = {"u1": 3600, "u2": 7200, "u3": 259200}
    for name in reversed(ages):
        api("POST", "/v1/nodes", {"driver": "fake-hardware", "name": name})
        api("PUT", f"/v1/nodes/{name}/states/provision", {"target": "manage"})
    with api.runtime.transaction() as session:
        for name, seconds in ages.items():
            node = session.scalar(select(Node.id).where(Node.name == name))
            session.execute(
                update(Operation).where(Operation.node_id == node).values(created_at=ago(seconds))
            )
    rows = json.loads(ingot("operation", "list", "--since", since, "-o", "json").out)
    assert names == {row["node_name"] for row in rows}
    is_of_u2 = "u2" in names
    rows = json.loads(ingot("node", "operations", "u2", "--since", since, "-o", "json").out)
    assert is_of_u2 == bool(rows)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_events_since_a_time_are_found_by_halving(api, ingot, count):
    for number in range(10):
        api("POST", "/v1/nodes", {"driver": "fake-hardware", "name": f"e{number}"})
    with api.runtime.transaction() as session:
        numbers = list(session.scalars(select(ChangeEvent.sequence).order_by(ChangeEvent.sequence)))
        for place, number in enumerate(reversed(numbers)):
            session.execute(
                update(ChangeEvent)
                .where(ChangeEvent.sequence == number)
                .values(created_at=ago(place * 3600 + 1800))
            )
    rows = json.loads(ingot("events", "--since", f"{count}h", "-o", "json").out)
    assert numbers[-count:] == [row["sequence"] for row in rows]
    assert [] == json.loads(ingot("events", "--since", "1m", "-o", "json").out)
    assert "one of both" in ingot("events", "--since", "1m", "--after", "1", status=2).err


@pytest.mark.parametrize(
    "words",
    ["audit list", "events", "operation list", "node history u1", "node operations u1", "hold list",
     "fleet list", "node agent-logs u1", "node console history u1"],
)  # fmt: skip
def test_a_wrong_time_is_named_with_the_accepted_forms(api, ingot, words):
    api("POST", "/v1/nodes", {"driver": "fake-hardware", "name": "u1"})
    ended = ingot(*words.split(), "--since", "last tuesday", status=2)
    assert "--since: 'last tuesday' is no time, as 8h, 30m, 2d, today, yesterday" in ended.err


def test_audit_records_since_yesterday(api, ingot):
    api("POST", "/v1/nodes", {"driver": "fake-hardware", "name": "u1"})
    rows = json.loads(ingot("audit", "list", "--since", "yesterday", "-o", "json").out)
    assert ["create/node"] == [row["action"] for row in rows]
    assert [] == json.loads(ingot("audit", "list", "--until", "1h", "-o", "json").out)


# secrets


def stored(api, name):
    with api.runtime.reading() as session:
        return session.query(Node).filter(Node.name == name).one().driver_info


def test_secrets_have_a_source_beside_the_argument(api, ingot, rack, tmp_path):
    file = tmp_path / "pw"
    file.write_text(f"{PASSWORD}\nsecond line\n")
    ended = ingot("node", "set", "u1", "--driver-info", f"redfish_password=@{file}")
    assert "" == ended.err
    assert PASSWORD == stored(api, "u1")["redfish_password"]
    ingot("node", "set", "u1", "--driver-info", "redfish_password=@-", stdin="from stdin\n")
    assert "from stdin" == stored(api, "u1")["redfish_password"]
    ended = ingot("node", "set", "u1", "--driver-info", f"redfish_password={PASSWORD}")
    assert "all users of this host can read arguments" in ended.err
    assert PASSWORD not in ended.out + ended.err
    assert PASSWORD == stored(api, "u1")["redfish_password"]
    ended = ingot("node", "set", "u1", "--driver-info", "redfish_password=@", status=2)
    assert "there is no terminal to type it" in ended.err
    ended = ingot("node", "set", "u1", "--driver-info", "redfish_password=@/none", status=2)
    assert "/none: No such file" in ended.err
    ingot("node", "set", "u1", "--driver-info", "redfish_username=@root")  # no secret: as it is
    assert "@root" == stored(api, "u1")["redfish_username"]


# questions


@pytest.mark.parametrize(
    "words",
    [
        ("set", *SHARD, "--driver-info", "redfish_password=@-"),
        ("set", *SHARD, "--driver-info", "redfish_address=10.0.0.1"),
        ("unset", *SHARD, "--driver-info", "redfish_username"),
    ],
    ids=" ".join,
)
def test_credentials_of_selected_nodes_need_a_confirmation(api, ingot, rack, words):
    refused = ingot("node", *words, status=2, stdin="x\n")
    assert "credentials: 12 nodes (u0, u1, u2, u3, u4, ...): needs --yes" in refused.err
    assert [] == ingot.changes
    if words[0] == "set":
        ingot("node", *words, "--yes", stdin="x\n")
        assert 12 == len(ingot.changes)
    ingot("node", "set", *SHARD, "--extra", "a=1")
    assert 12 == len(ingot.changes)


def test_many_machines_are_switched_on_only_after_a_question(api, ingot):
    for number in range(11):
        fields = {"driver": "fake-hardware", "name": f"u{number}", "shard": "row7"}
        api("POST", "/v1/nodes", fields)
    refused = ingot("node", "power", *SHARD, "on", status=2)
    assert "power on: 11 nodes (u0, u1, u2, u3, u4, ...): needs --yes" in refused.err
    assert [] == ingot.changes
    api("DELETE", "/v1/nodes/u0")
    ingot("node", "power", *SHARD, "on")
    assert 10 == len(ingot.changes)


def test_a_verb_that_erases_disks_needs_a_confirmation_whatever_its_name(api, ingot):
    info = {
        "redfish_address": "https://127.0.0.1:1", "redfish_username": "u", "redfish_password": "p",
        "deploy_kernel": "http://127.0.0.1:1/k", "deploy_ramdisk": "http://127.0.0.1:1/r",
    }  # fmt: skip
    for name, cleans in (("erased", True), ("kept", False)):
        fields = {"driver": "redfish", "name": name, "automated_clean": cleans, "owner": name}
        uuid = api("POST", "/v1/nodes", {**fields, "driver_info": info}).json["uuid"]
        api.set(uuid, provision_state=State.MANAGEABLE)
    words = ("node", "provision-state", "--where")
    refused = ingot(*words, "owner=erased", "provide", status=2)
    assert "provide: 1 node (erased): needs --yes" in refused.err
    ingot(*words, "owner=kept", "provide")
    assert "manageable" == api("GET", "/v1/nodes/erased").json["provision_state"]
    ingot(*words, "owner=erased", "provide", "--yes")
    assert "cleaning" == api("GET", "/v1/nodes/erased").json["provision_state"]


# rollouts


@pytest.mark.parametrize("source", ["file", "standard input"])
def test_a_rollout_is_for_the_nodes_of_a_list(api, ingot, rack, tmp_path, source):
    text = "# row 7\nu3\n\n  u1\nu3\n"
    (tmp_path / "names").write_text(text)
    file = str(tmp_path / "names") if source == "file" else "-"
    words = ("fleet", "run", "manage", "--nodes", file, "--max-unavailable", "5")
    plan = json.loads(ingot(*words, "--dry-run", "-o", "json", stdin=text).out)
    assert ["u1", "u3"] == sorted(node["node_name"] for node in plan["nodes"])
    ingot(*words, "--yes", stdin=text)
    (rollout,) = api("GET", "/v1/rollouts").json["rollouts"]
    assert ({"names": 2}, 2) == (rollout["filters"], rollout["nodes"])


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("--nodes", "-", "--all"), 2, "or all by --all: one of them"),
        (("--nodes", "-", "--where", "name=u1"), 2, "or all by --all: one of them"),
        ((), 2, "or all by --all: one of them"),
        (("--nodes", "/no/such/file"), 2, "/no/such/file"),
        (("--nodes", "-"), 1, "nodes.names: 1 of 2 could not be found: u99"),
    ],
)
def test_a_wrong_list_of_nodes_is_refused(api, ingot, rack, words, status, message):
    command = ("fleet", "run", "manage", *words, "--yes")
    assert message in ingot(*command, status=status, stdin="u1\nu99\n").err
    assert [] == api("GET", "/v1/rollouts").json["rollouts"]


def test_a_rollout_has_windows(api, ingot, rack):
    night = ("--window", "0 22 * * MON-FRI 6h Europe/Berlin", "--window", " 30 1  * * * 90m ")
    ingot("fleet", "run", "manage", *SHARD, *night, "--not-before", "2099-01-31T22:00Z", "--yes")
    (rollout,) = api("GET", "/v1/rollouts").json["rollouts"]
    assert ("2099-01-31T22:00:00", [
        {"cron": "0 22 * * MON-FRI", "zone": "Europe/Berlin", "minutes": 360},
        {"cron": "30 1 * * *", "zone": "UTC", "minutes": 90},
    ]) == (rollout["strategy"]["not_before"], rollout["strategy"]["windows"])  # fmt: skip


@pytest.mark.parametrize(
    ("window", "status", "message"),
    [
        ("0 22 * * 6h", 2, "is not five fields of cron, a duration and a time zone"),
        ("", 2, "is not five fields of cron"),
        ("0 22 * * * 6h Europe/Berlin daily", 2, "is not five fields of cron"),
        ("0 22 * * * Europe/Berlin 6h", 2, "'Europe/Berlin' is no duration"),
        ("0 22 * * * 30s", 1, "0 is less than the minimum of 1"),
        ("0 22 * * * 6h Berlin", 1, "'Berlin' is no time zone"),
        ("0 22 * * MONDAY 6h", 1, "Bad day-of-week"),
    ],
)
def test_a_wrong_window_is_refused(api, ingot, rack, window, status, message):
    words = ("fleet", "run", "manage", *SHARD, "--window", window, "--yes")
    assert message in ingot(*words, status=status).err
    assert [] == api("GET", "/v1/rollouts").json["rollouts"]


LATER = ("--not-before", "2099-01-31T22:00:00Z")


@pytest.fixture
def machines(api):
    """Three manageable nodes of a shard."""
    for number in range(3):
        api.node(name=f"u{number}", shard="row7", provision_state="manageable")


def test_a_verb_of_some_nodes_is_requested_later(api, ingot, machines):
    """By a rollout with one wave, which has the rights, the pause and the end of one."""
    steps = '[{"interface": "vendor", "step": "log_passthrough"}]'
    ingot("node", "provision-state", "u1", "clean", "--clean-steps", steps, *LATER)
    ingot("node", "power", "u1", "u2", "off", "--soft", "--timeout", "60", *LATER)
    ingot("node", "power", *SHARD, "on", *LATER, "--yes")
    expected = [
        ("clean", {"names": 1}, 1), ("soft power off", {"names": 2}, 2),
        ("power on", {"where": "shard=row7"}, 3),
    ]  # fmt: skip
    rollouts = api("GET", "/v1/rollouts").json["rollouts"]
    assert expected == [
        (rollout["target"], rollout["filters"], rollout["nodes"]) for rollout in rollouts[::-1]
    ]
    assert {(1, "2099-01-31T22:00:00")} == {
        (rollout["waves"], rollout["strategy"]["not_before"]) for rollout in rollouts
    }
    assert {"timeout": 60} == rollouts[1]["arguments"]
    assert "manageable" == api("GET", "/v1/nodes/u1").json["provision_state"]
    assert "will request clean: it starts no node before 2099" in ingot("node", "why", "u1").out


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("power", "u1", "off", "--wait"), 2, "--wait: not with --not-before"),
        (("provision-state", "u1", "rescue", "--rescue-password", "x"), 2, "keeps no secrets"),
        (
            ("provision-state", "u1", "active", "--config-drive", "{}"),
            2,
            "--config-drive: not with",
        ),
        (("power", *SHARD, "off"), 2, "power off: 3 nodes in 1 wave: needs --yes"),
        (("power", "u99", "off"), 1, "could not be found: u99"),
    ],
)
def test_what_cannot_be_requested_later_is_refused(api, ingot, machines, words, status, message):
    assert message in ingot("node", *words, *LATER, status=status).err
    assert [] == api("GET", "/v1/rollouts").json["rollouts"]


# errors


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("node", "power", "u1", "of"), 2, "'of' is not one of 'on', 'off', 'reboot'; the nearest is 'off'"),
        (("node", "provision-state", "u1", "deplyo"), 2, "the nearest is 'deploy'"),
        (("node", "maintenance", "u1"), 2, "'u1' is not one of 'on', 'off'"),
        (("node", "provision-state", "u1", "rescue"), 2, '--rescue-password: "rescue_password" is required'),
        (("node", "provision-state", "u1", "clean"), 2, "--clean-steps or --runbook:"),
        (("node", "provision-state", "u1", "service"), 2, "--service-steps or --runbook:"),
        (("node", "list", "--state", "availabel"), 1,
         f"not one of {len(State)} words; the nearest is 'available'"),
        (("fleet", "run", "provde", "--all", "--dry-run"), 1, "the nearest is 'provide'"),
        (("node", "list", "--where", "provison_state=x"), 2, "--where: Character 1 of where"),
        (("fleet", "run", "manage", "--where", "colour=red", "--dry-run"), 2, "--where: Character 1"),
        (("node", "delete", "u1"), 1, 'Can not delete node "u1" while it is in provision state'),
        (("node", "create", "--driver", "redfsh"), 1, "The nearest driver is redfish."),
        (("node", "console", "enable", "u1"), 1, "the console_interface of the node is no-console"),
        (("hold", "create", "u1", "--kind", "repair", "--reason", "x"), 1,
         "ingot: 'repair' is not one of ['scheduling', 'hardware', 'investigation']"),
        (("operation", "list", "-c", "node"), 2, "there is no field 'node'; the nearest is node_"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_errors_say_what_would_be_right(api, ingot, words, status, message):
    uuid = api("POST", "/v1/nodes", {"driver": "redfish", "name": "u1"}).json["uuid"]
    api("PUT", "/v1/nodes/u1/states/provision", {"target": "manage"})
    ended = ingot(*words, status=status)
    text = " ".join(ended.err.replace("│", " ").split())
    assert message in text
    assert "Value error" not in text
    assert "Schema error:" not in text
    assert uuid not in text


def test_a_list_takes_the_heads_of_its_table_as_fields(api, ingot):
    api("POST", "/v1/nodes", {"driver": "redfish", "name": "u1"})
    api("PUT", "/v1/nodes/u1/states/provision", {"target": "manage"})
    listed = ingot("operation", "list", "-c", "node name,kind", "-o", "value")
    assert ["u1\tmanage"] == listed.lines


def test_a_misspelt_key_of_driver_info_is_pointed_out(ingot):
    ended = ingot(
        "node", "create", "--driver", "redfish", "--name", "u1", "--driver-info", "redfish_adress=x"
    )
    assert "the nearest is redfish_address" in ended.err
    ended = ingot("node", "set", "u1", "--driver-info", "redfish_usernam=x")
    assert "the nearest is redfish_username" in ended.err
    assert "" == ingot("node", "set", "u1", "--driver-info", "site_label=x").err


def test_steps_of_a_runbook_have_the_order_of_their_places(api, ingot):
    steps = [
        {"interface": "bios", "step": name, "args": {}}
        for name in ("factory_reset", "apply_configuration")
    ]
    steps[1]["order"] = 9
    ingot("runbook", "create", "--name", "CUSTOM_A", "--steps", json.dumps(steps))
    stored_steps = api("GET", "/v1/runbooks/CUSTOM_A").json["steps"]
    assert [("factory_reset", 1), ("apply_configuration", 9)] == [
        (step["step"], step["order"]) for step in stored_steps
    ]


def test_watching_begins_with_the_present(api, ingot):
    api("POST", "/v1/nodes", {"driver": "fake-hardware", "name": "u1"})
    api("PUT", "/v1/nodes/u1/states/provision", {"target": "manage"})
    ended = ingot("node", "watch", "u1", "--timeout", "0", status=3)
    assert "u1: verifying" == ended.lines[0]
    assert ended.lines[1].startswith("manage: step 1 of ")
