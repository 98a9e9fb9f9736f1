"""Passwords of BMCs in a vault: written before they are referred to, read when they are needed."""

import json
import logging
from types import SimpleNamespace

import pytest
from sqlalchemy import select

from app.hardware import targets
from app.models import Node, vaulting
from app.reports import why
from app.server.application import create_app
from app.vault import writing
from app.vault.secret_cache import SecretCache
from app.vault.vault import Vault
from drivers.core.errors import InvalidDriverInfo, SecretsUnavailable
from drivers.core.references import is_reference
from drivers.simulator.simulator import running as simulator
from tests.integration.harness import Harness
from tests.integration.vault.vaulted import (
    BOTH,
    INFO,
    SECRET,
    SQLITE,
    database_text,
    let_days_pass,
    set_info,
    states,
    values_of,
)
from tests.support.vault_server import ALL, Refusal
from workers.doctor import outside_checks
from workers.periodic import power_sync, pruning

VERSION = {"X-OpenStack-Ironic-API-Version": "1.115"}


@pytest.fixture
def bmcs():
    with simulator(machines=2) as fleet:
        yield fleet


class Client:
    """A client of the API in this process."""

    def __init__(self, inside):
        inside.conductor()
        self.http = create_app(inside.runtime).test_client()

    def post(self, **fields):
        body = {"driver": "fake-hardware", "driver_info": INFO, **fields}
        return self.http.post("/v1/nodes", json=body, headers=VERSION)

    def patch(self, uuid, *changes):
        return self.http.patch(f"/v1/nodes/{uuid}", json=list(changes), headers=VERSION)


def change(op, path, value=None, **fields):
    return {"op": op, "path": path, **({} if value is None else {"value": value}), **fields}


def info_of(inside, uuid):
    with inside.runtime.reading() as session:
        return session.scalar(select(Node.driver_info).where(Node.uuid == uuid))


def enrolled(inside, machine, state="manageable"):
    """Return the id of a node of a simulated machine, whose password is in the vault."""
    harness = Harness(inside)

    node = harness.node(state, driver="redfish", power_state="power off")
    set_info(inside, node, machine.driver_info())
    assert is_reference(inside.read(node).driver_info["redfish_password"])
    return harness, node


# writing


@BOTH
def test_a_password_of_a_new_node_is_in_the_vault_alone(inside, server, caplog):
    caplog.set_level(logging.DEBUG)
    answer = Client(inside).post()
    assert 201 == answer.status_code, answer.text
    uuid = answer.json["uuid"]
    reference = info_of(inside, uuid)["redfish_password"]
    assert is_reference(reference)
    ((path, content),) = server.contents().items()
    assert f"ingot/{uuid}/driver_info.redfish_password/{reference[9:]}" == path
    assert {"node": uuid, "field": "driver_info.redfish_password", "value": SECRET} == content
    assert ["used"] == states(inside)
    assert "******" == answer.json["driver_info"]["redfish_password"]
    for text in (database_text(inside), answer.text, caplog.text):
        assert SECRET not in text
    node_answer = Client(inside).http.get(f"/v1/nodes/{uuid}", headers=VERSION)
    assert reference not in node_answer.text
    assert (
        SECRET
        == inside.runtime.vault.opened(uuid, "driver_info", info_of(inside, uuid))[
            "redfish_password"
        ]
    )


@SQLITE
@pytest.mark.parametrize(
    ("fields", "status"),
    [({"driver": "none"}, 400), ({"name": "taken"}, 409), ({"resource_class": 7}, 400)],
)
def test_a_refused_request_leaves_nothing_in_the_vault(inside, server, fields, status):
    client = Client(inside)
    assert 201 == client.post(name="taken").status_code
    assert status == client.post(**fields).status_code
    pruning.sweep_vault(inside.runtime)
    assert (["used"], [SECRET]) == (states(inside), values_of(server))


@SQLITE
def test_without_the_vault_a_password_is_refused_and_nothing_else(inside, server):
    client = Client(inside)
    uuid = client.post().json["uuid"]
    server.sealed = True
    refused = client.patch(uuid, change("replace", "/driver_info/redfish_password", "other"))
    assert 503 == refused.status_code
    assert "nothing was changed" in refused.text
    assert server.address not in refused.text
    assert "Retry-After" in refused.headers
    assert 200 == client.patch(uuid, change("replace", "/description", "x")).status_code
    server.sealed = False
    inside.runtime.vault._breaker._answered()
    password = change("replace", "/driver_info/redfish_password", "other")
    assert 200 == client.patch(uuid, password).status_code
    assert [SECRET, "other"] == values_of(server)


@SQLITE
def test_a_replaced_password_is_kept_for_backups_and_then_destroyed(inside, server):
    client = Client(inside)
    uuid = client.post().json["uuid"]
    info = info_of(inside, uuid)
    client.patch(uuid, change("replace", "/driver_info/redfish_password", "other"))
    assert 0 == pruning.sweep_vault(inside.runtime)
    opened = inside.runtime.vault.opened
    assert SECRET == opened(uuid, "driver_info", info)["redfish_password"]
    let_days_pass(inside, 31)
    assert 1 == pruning.sweep_vault(inside.runtime)
    assert (["other"], ["used"]) == (values_of(server), states(inside))
    with pytest.raises(InvalidDriverInfo, match=r"driver_info/redfish_password: .*set it again"):
        opened(uuid, "driver_info", info)


@SQLITE
def test_many_replaced_passwords_of_a_node_are_not_kept(inside, server):
    client = Client(inside)
    uuid = client.post().json["uuid"]
    for number in range(writing.KEPT + 3):
        password = change("replace", "/driver_info/redfish_password", f"p-{number}")
        assert 200 == client.patch(uuid, password).status_code
    assert 3 == pruning.sweep_vault(inside.runtime)
    assert writing.KEPT + 1 == len(server.contents())


@SQLITE
def test_a_deleted_node_leaves_its_password_for_a_while(inside, server):
    client = Client(inside)
    uuid = client.post().json["uuid"]
    assert 204 == client.http.delete(f"/v1/nodes/{uuid}", headers=VERSION).status_code
    assert (["dropped"], 0) == (states(inside), pruning.sweep_vault(inside.runtime))
    let_days_pass(inside, 31)
    pruning.sweep_vault(inside.runtime)
    assert ({}, []) == (server.keys, states(inside))


@SQLITE
def test_references_of_callers_are_refused(inside, server):
    client = Client(inside)
    uuid = client.post().json["uuid"]
    reference = info_of(inside, uuid)["redfish_password"]
    forged = client.post(driver_info={**INFO, "redfish_password": reference})
    assert (400, True) == (forged.status_code, "a reference to the vault" in forged.text)
    for attempt in (
        change("add", "/driver_info/ipmi_password", reference),
        change("copy", "/driver_info/ipmi_password", **{"from": "/driver_info/redfish_password"}),
        change("move", "/driver_info/ipmi_password", **{"from": "/driver_info/redfish_password"}),
    ):
        assert 400 == client.patch(uuid, attempt).status_code, attempt
    assert [SECRET] == values_of(server)


@SQLITE
def test_secrets_in_inner_documents_are_in_the_vault_too(inside, server):
    info = {"a": {"b/c": [{"token": {"x": 1}}]}, "redfish_password": "", "free": "password"}
    uuid = Client(inside).post(driver_info=info).json["uuid"]
    assert [{"x": 1}] == values_of(server)
    assert info == inside.runtime.vault.opened(uuid, "driver_info", info_of(inside, uuid))


@SQLITE
def test_a_node_has_few_secrets(inside, server):
    info = {f"password_{number}": "p" for number in range(vaulting.MOST_SECRETS + 1)}
    refused = Client(inside).post(driver_info=info)
    assert (400, True) == (refused.status_code, "at most 32 are kept" in refused.text)
    assert ({}, []) == (server.keys, states(inside))


@SQLITE
def test_the_api_validates_nodes_whose_secrets_it_cannot_read(inside):
    client = Client(inside)
    console = {"vnc_password": "12345678", "vnc_port": 5900}
    keys = {"ipmi_address": "192.0.2.1", "ipmi_password": "p", "ipmi_hex_kg_key": "0" * 40}
    for driver, info in (("ipmi", keys), ("redfish", {**INFO, **console})):
        uuid = client.post(driver=driver, driver_info=info).json["uuid"]
        answer = client.http.get(f"/v1/nodes/{uuid}/validate", headers=VERSION).json
        assert answer["power"]["result"], answer["power"]
        assert answer["management"]["result"], answer["management"]
        assert "vnc" not in str(answer["console"])


@SQLITE
def test_a_dry_run_writes_nothing_to_the_vault(inside, server):
    answer = Client(inside).http.post(
        "/v1/nodes?dry_run=true",
        json={"driver": "fake-hardware", "driver_info": INFO},
        headers=VERSION,
    )
    assert 200 == answer.status_code
    assert {} == server.keys


@SQLITE
@pytest.mark.parametrize("is_destroyed", [True, False])
def test_a_writer_that_was_too_slow_stores_its_secret_again(
    inside, server, monkeypatch, is_destroyed
):
    reached = []

    def late(point, kind="any"):
        if point == "vault_stored" and not reached:
            reached.append(point)
            let_days_pass(inside, 1)
            if not is_destroyed:
                server.fail = lambda method, _path: Refusal(403) if method == "DELETE" else None
            assert is_destroyed == pruning.sweep_vault(inside.runtime)

    monkeypatch.setattr(writing.kill_points, "reach", late)
    uuid = Client(inside).post().json["uuid"]
    assert reached
    assert states(inside) == (["used"] if is_destroyed else ["unused", "used"])
    server.fail = lambda _method, _path: None
    pruning.sweep_vault(inside.runtime)
    assert ([SECRET], ["used"]) == (values_of(server), states(inside))
    inside.runtime.vault.opened(uuid, "driver_info", info_of(inside, uuid))


@SQLITE
def test_the_api_needs_no_right_but_to_create(inside, server):
    server.roles["auth/approle", "r1"].policies = {"secret/data/ingot/": frozenset({"create"})}
    client = Client(inside)
    uuid = client.post().json["uuid"]
    password = change("replace", "/driver_info/redfish_password", "other")
    assert 200 == client.patch(uuid, password).status_code
    validation = client.http.get(f"/v1/nodes/{uuid}/validate", headers=VERSION)
    assert 200 == validation.status_code
    assert 204 == client.http.delete(f"/v1/nodes/{uuid}", headers=VERSION).status_code
    assert {201, 200} >= {status for _, _, status in server.requests}


# reading


def reasons_of(inside, node):
    with inside.runtime.reading() as session:
        return str(why.explain(session, session.get_one(Node, node)))


@SQLITE
def test_a_step_waits_for_a_sealed_vault_and_goes_on(inside, server, bmcs):
    harness, node = enrolled(inside, bmcs.machines[0])
    server.sealed = True
    harness.ask(
        node,
        "clean",
        clean_steps=[{"interface": "power", "step": "power_on"}],
        disable_ramdisk=True,
    )
    harness.run()
    operation = harness.last(node)
    assert "waiting" == operation.state
    assert "Vault is sealed" in reasons_of(inside, node)
    for _ in range(3):
        harness.poll(node)
    assert "the vault is out of reach" in reasons_of(inside, node)
    operation = harness.last(node)
    assert "waiting" == operation.state
    assert harness.steps(node)[operation.cursor].remaining is None  # no time is used up
    assert 0 == bmcs.machines[0].wrong_logins
    server.sealed = False
    inside.runtime.vault._breaker._answered()
    assert "manageable" == harness.poll(node)
    assert "On" == bmcs.machines[0].power


@BOTH
def test_a_remembered_password_serves_during_an_outage(inside, server, bmcs):
    _, node = enrolled(inside, bmcs.machines[0])
    power_sync.sync(inside.runtime, "c-1")
    reads = server.count("GET /v1/secret/data")
    server.sealed = True
    assert {"read": 1, "differ": 0, "failed": 0, "moving": 0} == power_sync.sync(
        inside.runtime, "c-1"
    )
    assert (1, reads) == (reads, server.count("GET /v1/secret/data"))
    assert 0 == inside.read(node).power_sync_failures


@SQLITE
def test_an_outage_is_bridged_until_the_time_of_a_secret_has_passed(inside, server):
    server.roles["auth/approle", "r1"].ttl = 0  # the token does not end
    clock = SimpleNamespace(now=0.0)
    vault = Vault(inside.settings, lambda: clock.now)
    uuid = Client(inside).post().json["uuid"]
    info = info_of(inside, uuid)

    def read(at):
        clock.now = at
        vault._breaker._answered()
        return vault.opened(uuid, "driver_info", info)["redfish_password"]

    def count():
        return server.count("GET /v1/secret/data")

    assert (SECRET, 1) == (read(0), count())
    assert (SECRET, 1) == (read(899), count())  # a quarter of the time
    server.sealed = True
    assert (SECRET, 2) == (read(1801), count())  # half of it: read again, in vain
    assert SECRET == read(3599)
    with pytest.raises(SecretsUnavailable):
        read(3601)
    server.sealed = False
    assert SECRET == read(3602)
    server.keys.clear()
    assert SECRET == read(3602 + 899)
    with pytest.raises(InvalidDriverInfo, match="not in the vault"):
        read(3602 + 1801)
    reads = count()
    with pytest.raises(InvalidDriverInfo):
        read(3602 + 1802)
    assert reads == count()  # a missing secret is not asked for each time


@SQLITE
def test_a_power_sync_without_the_vault_blames_no_machine(inside, server, bmcs):
    _, node = enrolled(inside, bmcs.machines[0])
    server.sealed = True
    for _ in range(10):
        assert 0 == power_sync.sync(inside.runtime, "c-1")["failed"]
    row = inside.read(node)
    assert (0, False, "power off") == (row.power_sync_failures, row.maintenance, row.power_state)


@SQLITE
def test_a_password_moved_by_a_writer_of_the_database_is_not_used(inside, server, bmcs):
    _, victim = enrolled(inside, bmcs.machines[0])
    _, thief = enrolled(inside, bmcs.machines[1])
    stolen = inside.read(victim).driver_info["redfish_password"]
    info = inside.read(thief).driver_info
    with inside.runtime.write_connection() as connection:
        text = json.dumps({**info, "redfish_password": stolen})
        connection.exec_driver_sql("UPDATE nodes SET driver_info = ? WHERE id = ?", (text, thief))
    with pytest.raises(InvalidDriverInfo, match="of another node"):
        targets.build(inside.runtime, inside.read(thief))
    renamed = {"ipmi_password": info["redfish_password"]}
    with inside.runtime.write_connection() as connection:
        connection.exec_driver_sql(
            "UPDATE nodes SET driver_info = ? WHERE id = ?", (json.dumps(renamed), thief)
        )
    with pytest.raises(InvalidDriverInfo, match="ipmi_password"):
        targets.build(inside.runtime, inside.read(thief))


@SQLITE
def test_a_secret_of_another_place_in_the_vault_is_not_used(inside, server):
    uuid = Client(inside).post().json["uuid"]
    (versions,) = server.keys.values()
    versions[-1].data = {**versions[-1].data, "node": "other"}
    with pytest.raises(InvalidDriverInfo):
        inside.runtime.vault.opened(uuid, "driver_info", info_of(inside, uuid))


@SQLITE
def test_a_process_without_the_vault_says_so(inside, bmcs):
    _, node = enrolled(inside, bmcs.machines[0])
    inside.runtime.vault = None
    with pytest.raises(
        InvalidDriverInfo, match=r"driver_info/redfish_password: .*\[vault\]address"
    ):
        targets.build(inside.runtime, inside.read(node))


@SQLITE
def test_a_target_of_a_transaction_never_logs_in(inside, bmcs):
    _, node = enrolled(inside, bmcs.machines[0])
    with inside.runtime.reading() as session:
        target = targets.of_node(session, session.get_one(Node, node))
    with pytest.raises(InvalidDriverInfo, match="refers to a secret in a vault"):
        target.driver.power.get_power_state(target)
    assert 0 == bmcs.machines[0].wrong_logins
    opened = targets.with_secrets(inside.runtime, target)
    assert "power off" == opened.driver.power.get_power_state(opened)


@SQLITE
def test_a_token_that_ends_is_replaced(inside, server, bmcs):
    enrolled(inside, bmcs.machines[0])
    server.advance(601)
    assert 0 == power_sync.sync(inside.runtime, "c-1")["failed"]
    assert 2 == server.count("login")


@SQLITE
def test_a_vault_that_refuses_blames_no_machine(inside, server, bmcs):
    _, node = enrolled(inside, bmcs.machines[0])
    server.roles["auth/approle", "r1"].policies = {}
    server.tokens.clear()
    assert 0 == power_sync.sync(inside.runtime, "c-1")["failed"]
    with pytest.raises(SecretsUnavailable, match="403"):
        set_info(inside, node, INFO)
    assert ["unused", "used"] == states(inside)  # the sweep destroys what may exist


@SQLITE
def test_the_doctor_names_what_the_vault_refuses(inside, server):
    installation = SimpleNamespace(runtime=inside.runtime)
    assert [] == list(outside_checks.unusable_vault(installation))
    assert {} == server.keys
    role = server.roles["auth/approle", "r1"]
    role.policies = {"secret/": ALL - {"delete"}}
    server.tokens.clear()
    (finding,) = outside_checks.unusable_vault(installation)
    assert "403 to DELETE secret/metadata/ingot/doctor/" in finding.explanation
    server.sealed = True
    (finding,) = outside_checks.unusable_vault(installation)
    assert "is sealed" in finding.explanation
    inside.runtime.vault = None
    assert [] == list(outside_checks.unusable_vault(installation))


def test_a_cache_forgets_by_time_and_by_number():
    clock = SimpleNamespace(now=0.0)
    cache = SecretCache(100.0, 2, lambda: clock.now)
    cache.put("a", 1)
    assert not cache.is_due(cache.get("a"))
    clock.now = 50.0
    assert cache.is_due(cache.get("a"))
    clock.now = 99.0
    assert 1 == cache.get("a").value
    clock.now = 100.0
    assert cache.get("a") is None
    for name in "abc":
        cache.put(name, name)
    assert (None, 2) == (cache.get("a"), len(cache))
    cache.forget("b")
    assert cache.get("b") is None
    off = SecretCache(0.0, 2, lambda: clock.now)
    off.put("a", 1)
    assert off.get("a") is None
