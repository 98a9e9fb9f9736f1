"""Rotation of passwords in a vault, and moves there and back: killed anywhere, nothing is lost."""

import time
from contextlib import suppress

import pytest
from sqlalchemy import select

from app.config.settings import SettingsError
from app.engine import operations
from app.models import AuditRecord, Node
from drivers.builtin import HARDWARE_TYPES
from drivers.core.bmc import Bmcs
from drivers.core.password_rotation import KEY
from drivers.core.references import is_reference
from drivers.core.registry import load
from drivers.simulator.simulator import running as simulator
from tests.integration.crash_harness import CONDUCTOR, IN_A_TRANSACTION, Interruption, opened
from tests.integration.harness import Acme, Harness, requested
from tests.integration.vault.vaulted import (
    BOTH,
    INFO,
    SECRET,
    SQLITE,
    database_text,
    let_days_pass,
    options,
    set_info,
    states,
    values_of,
)
from tests.support.inside import Inside
from tests.support.vault_server import Refusal
from tests.unit.drivers.machines import scripted_agent
from workers.conductor import recording
from workers.moving import bundles, ironic_rows, vault_secrets
from workers.periodic import power_sync, pruning

ROTATE = requested("management", "rotate_bmc_password")


@pytest.fixture
def bmcs():
    with simulator(machines=1) as fleet:
        yield fleet


def enrolled(harness, machine):
    machine.password = "admin"
    node = harness.node("manageable", driver="redfish", power_state="power off")
    set_info(harness.inside, node, machine.driver_info())
    return node


def rotate(harness, node):
    harness.ask(node, "clean", clean_steps=[ROTATE], disable_ramdisk=True)


@pytest.fixture
def rotating(inside, bmcs):
    """Harness, node and machine of a rotation whose new password is not settled yet."""
    harness, machine = Harness(inside), bmcs.machines[0]
    node = enrolled(harness, machine)
    rotate(harness, node)
    harness.run()
    return harness, node, machine


def password_of(inside, node):
    row = inside.read(node)
    return inside.runtime.vault.opened(row.uuid, "driver_info", row.driver_info)["redfish_password"]


@BOTH
def test_both_passwords_of_a_rotation_are_in_the_vault(inside, server, rotating):
    harness, node, machine = rotating
    assert is_reference(inside.read(node).driver_internal_info[KEY])
    (candidates,) = (value for value in values_of(server) if isinstance(value, dict))
    assert ("admin", True) == (candidates["old"], candidates["unsettled"])
    reads = machine.reads
    power_sync.sync(inside.runtime, "c-1")
    assert reads == machine.reads  # neither password is known to be valid
    assert "manageable" == harness.poll(node)
    assert machine.password == candidates["new"] == password_of(inside, node)
    assert KEY not in inside.read(node).driver_internal_info
    assert candidates["new"] not in database_text(inside)
    let_days_pass(inside, 31)
    pruning.sweep_vault(inside.runtime)
    assert ([candidates["new"]], ["used"]) == (values_of(server), states(inside))
    assert 0 == machine.wrong_logins


@SQLITE
def test_a_rotation_killed_anywhere_knows_its_password(inside, server, bmcs, monkeypatch):
    machine = bmcs.machines[0]
    with scripted_agent() as agent, opened(inside, agent, monkeypatch) as harness:
        inside.runtime.drivers = load([*HARDWARE_TYPES, Acme], bmcs=Bmcs(trip_after=100))

        def run(interruption):
            node = enrolled(harness, machine)
            harness.begin(interruption)
            rotate(harness, node)
            harness.drive()
            row = inside.read(node)
            assert machine.password == password_of(inside, node) != "admin"
            assert KEY not in row.driver_internal_info
            with harness.runtime.reading() as session:
                assert "succeeded" == operations.of_node(session, node)[0].state
            let_days_pass(inside, 31)
            pruning.sweep_vault(inside.runtime)
            assert [machine.password] == values_of(server)  # neither more nor less
            inside.change(Node, node, driver_info={})  # no other node has the user
            server.keys.clear()
            with inside.runtime.write_connection() as connection:
                connection.exec_driver_sql("DELETE FROM vault_secrets")

        run(None)
        reached = dict(harness.reached)
        assert 2 == reached[CONDUCTOR, "vault_stored"] == reached[CONDUCTOR, "vault_noted"]
        for (role, point), count in reached.items():
            for nth in range(1, count + 1):
                run(Interruption(role, point, nth))
                if point not in IN_A_TRANSACTION:
                    run(Interruption(role, point, nth, pause=True))


@SQLITE
def test_an_outcome_waits_until_the_vault_keeps_its_password(inside, server, rotating, monkeypatch):
    harness, node, machine = rotating
    waits, other_sleep = [], time.sleep

    def sleep(seconds):
        if seconds != recording.VAULT_PAUSE:
            other_sleep(seconds)
            return
        waits.append(seconds)
        if len(waits) == 3:
            server.fail = lambda _method, _path: None
            inside.runtime.vault._breaker._answered()

    monkeypatch.setattr(recording, "VAULT_PAUSE", 0.0123)
    monkeypatch.setattr(time, "sleep", sleep)
    server.fail = lambda method, _path: Refusal(503, "sealed") if method == "POST" else None
    assert "manageable" == harness.poll(node)
    assert 3 == len(waits)
    assert machine.password == password_of(inside, node) != "admin"
    assert 0 == machine.wrong_logins


@SQLITE
def test_an_outcome_that_is_never_kept_is_like_a_crash(inside, server, rotating, monkeypatch):
    harness, node, machine = rotating
    monkeypatch.setattr(recording, "PATIENCE", 0.0)
    server.fail = lambda method, _path: Refusal(503, "sealed") if method == "POST" else None
    with pytest.raises(recording.SecretsUnavailable):
        harness.poll(node)
    row = inside.read(node)
    assert is_reference(row.driver_internal_info[KEY])  # both are still known
    assert is_reference(row.driver_info["redfish_password"])
    assert "admin" == password_of(inside, node) != machine.password


# moves


def move(inside, tell=lambda _line: None, **arguments):
    return vault_secrets.move(inside.runtime, tell=tell, **{"dry_run": False, **arguments})


def fleet_of(inside, count):
    """Return the ids of nodes whose passwords are in the database."""
    harness = Harness(inside)
    nodes = [harness.node(driver_info={**INFO, "n": number}) for number in range(count)]
    rotation = {KEY: {"old": "a", "new": "b", "unsettled": True}, "token": "of no BMC"}
    inside.change(Node, nodes[0], driver_internal_info=rotation)
    return nodes


@BOTH
def test_passwords_are_moved_to_the_vault_and_back(inside, server):
    nodes = fleet_of(inside, 3)
    documents = [inside.read(node).driver_info for node in nodes]
    internal = inside.read(nodes[0]).driver_internal_info
    assert SECRET in database_text(inside)
    planned = move(inside, to_vault=True, dry_run=True)
    assert ((3, 4), {}) == ((planned.nodes, planned.secrets), server.keys)
    moved = move(inside, to_vault=True)
    assert (3, 4, 0) == (moved.nodes, moved.secrets, moved.unreadable_nodes)
    assert SECRET not in database_text(inside)
    assert 4 == len(server.contents())
    assert 0 == move(inside, to_vault=True).nodes
    back = Inside(inside.url, **options(server, store_secrets="false"))
    moved = move(back, to_vault=False)
    assert (3, 4, 0) == (moved.nodes, moved.secrets, moved.unreadable_nodes)
    assert documents == [back.read(node).driver_info for node in nodes]
    assert internal == back.read(nodes[0]).driver_internal_info
    assert 0 == move(back, to_vault=False).nodes
    let_days_pass(inside, 31)
    pruning.sweep_vault(back.runtime)
    assert {} == server.keys
    with back.runtime.reading() as session:
        actions = set(session.scalars(select(AuditRecord.action)))
    assert {"update/vault/secrets", "update/database/secrets"} <= actions
    back.close()


@SQLITE
@pytest.mark.parametrize("point", ["vault_noted", "vault_stored"])
@pytest.mark.parametrize("nth", [1, 2, 4])
def test_a_move_killed_anywhere_is_continued(inside, server, monkeypatch, point, nth):
    nodes = fleet_of(inside, 3)
    count = 0

    class Killed(BaseException):
        pass

    def reach(name, kind="any"):
        nonlocal count
        count += name == point
        if count == nth:
            raise Killed

    monkeypatch.setattr("app.vault.writing.kill_points.reach", reach)
    with suppress(Killed):
        move(inside, to_vault=True)
    monkeypatch.undo()
    move(inside, to_vault=True)
    let_days_pass(inside, 31)
    pruning.sweep_vault(inside.runtime)
    assert 4 == len(server.contents()) == states(inside).count("used") == len(states(inside))
    for node in nodes:
        assert SECRET == password_of(inside, node)


@SQLITE
def test_a_move_leaves_what_it_cannot_read_and_says_so(inside, server):
    nodes, lines = fleet_of(inside, 2), []
    move(inside, to_vault=True)
    lost = next(path for path in server.keys if inside.read(nodes[1]).uuid in path)
    del server.keys[lost]
    back = Inside(inside.url, **options(server, store_secrets="false"))
    moved = move(back, to_vault=False, tell=lines.append)
    assert (1, 1) == (moved.nodes, moved.unreadable_nodes)
    assert "driver_info/redfish_password" in lines[0]
    assert is_reference(back.read(nodes[1]).driver_info["redfish_password"])
    back.close()


@SQLITE
def test_a_node_with_secrets_in_the_vault_is_not_exported_to_ironic(inside):
    (node,) = fleet_of(inside, 1)
    move(inside, to_vault=True)
    with inside.runtime.reading() as session:
        bundle = bundles.stored(session, Node, inside.read(node).uuid, ())
    with pytest.raises(bundles.NotMoved, match="move --to database"):
        ironic_rows.node(None, bundle, {})


@SQLITE
def test_a_move_against_the_settings_is_refused(inside):
    with pytest.raises(SettingsError, match="store_secrets: set it to false"):
        move(inside, to_vault=False)
    inside.runtime.vault = None
    with pytest.raises(SettingsError, match="address is needed"):
        move(inside, to_vault=True)


@SQLITE
def test_without_storing_new_passwords_stay_in_the_database(database, server):
    view = Inside(database, **options(server, store_secrets="false"))
    node = Harness(view).node()
    set_info(view, node, INFO)
    assert INFO == view.read(node).driver_info
    assert {} == server.keys
    view.close()
