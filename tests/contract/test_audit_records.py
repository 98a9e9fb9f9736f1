"""Audit records of requests: one for each write, for refused requests within bounds, without values."""

import base64
import itertools
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import bcrypt
import pytest
from sqlalchemy import delete, select
from sqlalchemy.exc import OperationalError

from app.api.request.context import services_of
from app.audit import audit_records as kit_audit
from app.audit import refused_requests
from app.db.clock import after
from app.models import AuditRecord
from app.server.application import BLUEPRINTS, create_app
from tests.contract import test_fuzz
from tests.contract.conftest import fault
from tests.contract.direct_calls import DirectCalls
from tests.contract.test_fuzz import KNOWN, MAC, RIGHT, TRAIT, uuid
from workers.periodic.pruning import prune_audit

restore = test_fuzz.restore
BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
VALUE = "a value that no record has"
EXTRA = [{"op": "add", "path": "/extra/rack", "value": VALUE}]
DESCRIPTION = [{"op": "add", "path": "/description", "value": VALUE}]
FUNCTION = "third_method_sync"
#: Route that needs another body than `RIGHT` has, or none -> its body.
BODIES = {
    "PATCH /v1/nodes/<ident>": EXTRA,
    "PATCH /v1/ports/<ident>": EXTRA,
    "PATCH /v1/portgroups/<ident>": EXTRA,
    "PATCH /v1/chassis/<uuid>": DESCRIPTION,
    "PATCH /v1/volume/connectors/<uuid>": EXTRA,
    "PATCH /v1/volume/targets/<uuid>": EXTRA,
    "PATCH /v1/deploy_templates/<ident>": EXTRA,
    "PATCH /v1/runbooks/<ident>": EXTRA,
    "PATCH /v1/allocations/<ident>": EXTRA,
    "PATCH /v1/webhooks/<ident>": [{"op": "add", "path": "/types/-", "value": "node.created"}],
    "PATCH /v1/inspection_rules/<uuid>": DESCRIPTION,
    "PATCH /v1/networks/<ident>": DESCRIPTION,
    "PATCH /v1/baselines/<ident>": DESCRIPTION,
    "PATCH /v1/switches/<ident>": DESCRIPTION,
    "PATCH /v1/quotas/<uuid>": [{"op": "replace", "path": "/node_limit", "value": 8}],
    "PATCH /v1/holds/<uuid>": [{"op": "replace", "path": "/reason", "value": "it moves"}],
    "POST /v1/events": {
        "events": [{"event": "network.bind_port", "port_id": uuid("port"), "mac_address": MAC, "status": "ACTIVE"}]
    },
    "POST /v1/nodes/<ident>/bmc/documents": {"paths": ["/redfish/v1/"]},
    "POST /v1/nodes/<ident>/vendor_passthru": {"bar": VALUE},
    "POST /v1/nodes/<ident>/vifs": {"id": "vif-1"},
    "PUT /v1/nodes/<ident>/maintenance": {"reason": VALUE},
    "PUT /v1/nodes/<ident>/management/boot_device": {"boot_device": "pxe"},
    "PUT /v1/nodes/<ident>/management/indicators/<indicator>": {"state": "on"},
    "PUT /v1/nodes/<ident>/states/boot_mode": {"target": "uefi"},
    "PUT /v1/nodes/<ident>/states/console": {"enabled": True},
    "PUT /v1/nodes/<ident>/states/power": {"target": "power on"},
    "PUT /v1/nodes/<ident>/states/provision": {"target": "provide"},
    "PUT /v1/nodes/<ident>/states/raid": {"logical_disks": [{"size_gb": 9, "raid_level": "1"}]},
    "PUT /v1/nodes/<ident>/states/secure_boot": {"target": True},
    "PUT /v1/nodes/<ident>/traits": {"traits": ["HW_CPU_X86_VMX"]},
    "PUT /v1/rollouts/<uuid>/states": {"target": "pause"},
    "PUT /v1/runbooks/<ident>/traits": {"traits": [TRAIT]},
}  # fmt: skip
#: Requests of agents and BMCs: recorded only if they are refused.
OF_MACHINES = ("/v1/heartbeat", "/v1/continue_inspection", "/v1/redfish_events")
#: Without a session there is nothing to record (test_login.py).
OF_SESSIONS = ("/v1/logout",)
#: Routes that the populated service refuses -> status.
REFUSED = {
    "DELETE /v1/nodes/<ident>/allocation": 404,
    "DELETE /v1/portgroups/<ident>": 400,  # it has a port
    "DELETE /v1/chassis/<uuid>": 400,  # it has nodes
    "DELETE /v1/rollouts/<uuid>": 409,  # it has not ended
    "PUT /v1/nodes/<ident>/bmc/recording": 400,  # of a node without Redfish
    "POST /v1/nodes/<ident>/console/tickets": 409,  # the console is not enabled
    "POST /v1/nodes/<ident>/switch_ports/restore": 400,  # of network interface noop
    "POST /v1/login": 400,  # without local users
    "POST /v1/login/scope": 400,
}  # fmt: skip


def records(api, **columns):
    """Return all records in the order of insertion, those that wait to be written included."""
    services_of(api.client.application).refused_requests.flush()
    with api.runtime.reading() as session:
        query = select(AuditRecord).filter_by(**columns).order_by(AuditRecord.id)
        return list(session.scalars(query))


def forget(api):
    records(api)
    with api.runtime.transaction() as session:
        session.execute(delete(AuditRecord))


@pytest.fixture
def audited(api):
    """The application, without records of earlier tests."""
    forget(api)
    return api


def writes():
    """Yield (method, path) of all declared routes that change something."""
    for route in itertools.chain.from_iterable(blueprint.declared for blueprint in BLUEPRINTS):
        if route.method != "GET" and not route.path.startswith((*OF_MACHINES, *OF_SESSIONS)):
            yield route.method, route.path


def filled(path):
    """Replace the parameters of a path by names of populated resources."""

    def known(match):
        collection, parameter = match.groups()
        name = FUNCTION if parameter == "function" else next(iter(KNOWN[collection]))
        by_uuid = parameter == "uuid" or collection in ("ports", "portgroups")
        return f"{collection}/{uuid(name) if by_uuid else name}".replace(
            "system@chassis", "led@system"
        )

    used = re.sub(r"([\w-]+)/<(\w+)>", known, path)
    return f"{used}?method={FUNCTION}" if used.endswith("vendor_passthru") else used


def status_of(method, path):
    """Return the status that a request of `test_each_route` gets, if it is no success."""
    if "vendor_passthru" in path and (method != "POST" or path.startswith("/v1/drivers")):
        return 400  # no such function, or not by this method
    return REFUSED.get(f"{method} {path}")


def test_each_route_that_writes_leaves_one_record_with_its_status(restore, api):
    """Driven by the table of routes, so that a new route cannot be forgotten."""
    wrong, names = [], set()
    for method, path in writes():
        restore()
        api.set(uuid("n1"), power_state="power off")
        forget(api)
        body = BODIES.get(f"{method} {path}", RIGHT.get(path.replace("<", "{").replace(">", "}")))
        refused = status_of(method, path)
        answer = api(method, filled(path), body)
        outcomes = [(record.outcome, record.status) for record in records(api)]
        expected = ("failure" if refused else "success", refused or answer.status_code)
        if [expected] != outcomes or (answer.status_code >= 400) != bool(refused):
            wrong.append((method, path, answer.status_code, answer.text[:200], outcomes))
        names |= {record.action for record in records(api)}
    assert [] == wrong, "\n".join(map(str, wrong))
    assert len(names) > 40


def test_a_record_has_caller_target_and_names_but_no_values(audited):
    node = audited.node(name="rack-1")
    forget(audited)
    secret = {"redfish_address": VALUE, "redfish_password": VALUE}
    patch = [{"op": "add", "path": "/driver_info", "value": secret}, *DESCRIPTION,
             {"op": "add", "path": "/driver_info/redfish_username", "value": VALUE}]  # fmt: skip
    headers = {"User-Agent": "c" * 999, "X-Forwarded-For": "2001:db8::7"}
    answer = audited("PATCH", "/v1/nodes/rack-1", patch, **headers)
    assert 200 == answer.status_code
    configdrive = {"target": "active", "configdrive": VALUE.encode().hex()}
    audited("PUT", "/v1/nodes/rack-1/states/provision", {"target": "manage"})
    audited("PUT", "/v1/nodes/rack-1/states/provision", configdrive)
    changed, managed, refused = records(audited)
    assert ("update/node", "success", 200, "node", node["uuid"]) == (
        changed.action, changed.outcome, changed.status, changed.target_type, changed.target,
    )  # fmt: skip
    assert (
        "driver_info,driver_info/redfish_address,driver_info/redfish_password,"
        "driver_info/redfish_username,description"
    ) == changed.fields
    assert ("2001:db8::7", "c" * 128, "noauth") == (
        changed.address, changed.user_agent, changed.auth,
    )  # fmt: skip
    assert answer.headers["Openstack-Request-Id"] == changed.request_id
    assert ("update/node/state/provision/manage", node["uuid"], "target") == (
        managed.action, managed.target, managed.fields,
    )  # fmt: skip
    assert ("update/node/state/provision/active", "failure", None) == (
        refused.action, refused.outcome, refused.fields,
    )  # fmt: skip
    rows = audited("GET", "/v1/audit").text
    assert VALUE not in rows
    assert VALUE.encode().hex() not in rows


@BOTH
def test_a_repeated_request_is_recorded_once(audited):
    node = audited.node()
    forget(audited)
    path = f"/v1/nodes/{node['uuid']}/states/provision"
    for _ in range(3):
        assert (
            202
            == audited("PUT", path, {"target": "manage"}, **{"Idempotency-Key": "k"}).status_code
        )
    assert ["success"] == [record.outcome for record in records(audited)]


def test_a_call_to_a_conductor_is_recorded_before_it_and_has_its_outcome_afterwards(audited):
    node = audited.node()
    forget(audited)
    path = f"/v1/nodes/{node['uuid']}/management/boot_device"
    outcomes = []

    class Calls(DirectCalls):
        def post(self, *call):
            outcomes.extend((record.outcome, record.status) for record in records(audited))
            super().post(*call)

    audited.runtime.calls = Calls(audited.runtime)
    try:
        assert 204 == audited("PUT", path, {"boot_device": "pxe"}).status_code
        assert 400 == audited("PUT", path, {"boot_device": "tape"}).status_code
    finally:
        audited.runtime.calls = None
    assert ("pending", None) == outcomes[0]
    assert [("success", 204), ("failure", 400)] == [
        (record.outcome, record.status) for record in records(audited)
    ]


def test_reads_and_accepted_requests_of_agents_are_not_recorded(audited):
    node = audited.node()
    audited.set(node["uuid"], provision_state="wait call-back")
    forget(audited)
    audited("GET", "/v1/nodes")
    audited("GET", "/v1/nodes/no-such-node")
    audited("OPTIONS", "/v1/nodes")
    audited("POST", "/v1/heartbeat/no-such-node", {"callback_url": "http://192.0.2.1"})
    (refused,) = records(audited)
    assert ("create/heartbeat", "failure", 404) == (refused.action, refused.outcome, refused.status)


def fields_of(audited, patch, node):
    forget(audited)
    answer = audited("PATCH", f"/v1/nodes/{node['uuid']}", patch)
    assert 200 == answer.status_code, answer.text
    (record,) = records(audited)
    return record.fields.split(",")


def test_no_number_of_other_fields_hides_one_that_counts(audited):
    node = audited.node(driver_info={"redfish_address": "https://192.0.2.1"})
    many = [{"op": "add", "path": f"/extra/a{at:02}", "value": 1} for at in range(50)]
    counts = [
        {"op": "add", "path": "/driver_info/redfish_verify_ca", "value": False},
        {"op": "add", "path": "/owner", "value": "p-1"},
        {"op": "replace", "path": "/power_interface", "value": "fake"},
    ]
    fields = fields_of(audited, [*many, *counts, many[0]], node)
    assert ["driver_info/redfish_verify_ca", "owner", "power_interface"] == fields[:3]
    assert "extra/a00" in fields
    assert "+20" == fields[-1]  # distinct ones


def test_no_number_of_keys_beside_it_hides_a_key_of_driver_info(audited):
    node = audited.node()
    junk = [{"op": "add", "path": f"/driver_info/a{at:03}", "value": 1} for at in range(300)]
    address = {"op": "add", "path": "/driver_info/redfish_address", "value": "https://192.0.2.1"}
    assert "driver_info/redfish_address" in fields_of(audited, [*junk, address], node)
    whole = {"op": "replace", "path": "/driver_info",
             "value": {f"b{at:03}": 1 for at in range(300)} | {"ipmi_address": "192.0.2.2"}}  # fmt: skip
    assert "driver_info/ipmi_address" in fields_of(audited, [whole], node)


def test_no_number_of_properties_hides_the_disk_that_is_written(audited):
    node = audited.node()
    junk = [{"op": "add", "path": f"/properties/a{at:02}", "value": 1} for at in range(50)]
    hint = {"op": "add", "path": "/properties/root_device", "value": {"name": "/dev/sdb"}}
    assert "properties/root_device" in fields_of(audited, [*junk, hint], node)
    whole = {"op": "replace", "path": "/properties", "value": {"root_device": {"size": 100}}}
    assert ["properties", "properties/root_device"] == fields_of(audited, [whole], node)


def test_the_steps_of_a_request_are_named(audited):
    node = audited.node(provision_state="manageable")
    forget(audited)
    steps = [{"interface": "deploy", "step": "erase_devices", "args": {"a": VALUE}}] * 2
    path = f"/v1/nodes/{node['uuid']}/states/provision"
    cleaned = audited("PUT", path, {"target": "clean", "clean_steps": steps})
    assert 202 == cleaned.status_code, cleaned.text
    (record,) = records(audited)
    assert "target,clean_steps,clean_steps/deploy.erase_devices" == record.fields


@pytest.mark.parametrize("path", ["?method=second_method", "/second_method"])
def test_a_vendor_function_is_named_with_its_arguments_in_both_forms(audited, path):
    node = audited.node(driver="fake-hardware", vendor_interface="fake")
    forget(audited)
    called = audited("POST", f"/v1/nodes/{node['uuid']}/vendor_passthru{path}", {"bar": VALUE})
    assert 202 == called.status_code, called.text
    (record,) = records(audited)
    assert "second_method,bar" == record.fields


def test_a_record_has_the_name_beside_the_uuid(audited):
    node = audited.node(name="rack-1")
    forget(audited)
    path = f"/v1/nodes/{node['uuid']}"
    audited("PATCH", path, DESCRIPTION)
    audited("PUT", f"{path}/maintenance", {"reason": "x"})
    audited("PATCH", path, [{"op": "replace", "path": "/name", "value": "rack-2"}])
    audited("DELETE", f"{path}/maintenance")
    audited("DELETE", path)
    assert ["rack-1", "rack-1", "rack-1", "rack-2", "rack-2"] == [
        record.target_name for record in records(audited)
    ]
    assert "rack-2" in [
        record["target_name"] for record in audited("GET", "/v1/audit").json["audit"]
    ]


def test_refused_agents_are_counted_by_node_and_reason(audited):
    nodes = [audited.node(name=name) for name in ("rack-1", "rack-2")]
    for node in nodes:
        audited.set(node["uuid"], provision_state="available")
    forget(audited)
    for number in range(30):
        for node in nodes:
            headers = {"X-Forwarded-For": f"198.51.100.{number}"}
            body = {
                "callback_url": "https://192.0.2.1:9999",
                "agent_version": "9",
                "agent_token": "x",
            }
            audited("POST", f"/v1/heartbeat/{node['uuid']}", body, **headers)
        records(audited)  # the windows of many transactions
    agent_records = records(audited)
    assert [(node["uuid"], "agent", 30, "success") for node in nodes] == [
        (record.target, record.auth, record.requests, "success") for record in agent_records
    ]
    assert all(record.reason for record in agent_records), [
        record.reason for record in agent_records
    ]


def test_equal_refused_requests_are_one_record_and_a_client_gets_few(audited):
    for _ in range(50):
        audited("DELETE", "/v1/nodes/missing")
    for number in range(2 * refused_requests.PER_CLIENT):
        audited("DELETE", f"/v1/nodes/missing-{number}")
    for number in range(3 * refused_requests.OF_STRANGERS):
        forwarded = {"X-Forwarded-For": f"198.51.100.{number}"}
        audited("DELETE", f"/v1/nodes/missing-{number}", **forwarded)
    *refused_records, omitted = records(audited)
    assert (50, "delete/node", "missing") == (
        refused_records[0].requests,
        refused_records[0].action,
        refused_records[0].target,
    )
    assert refused_requests.OF_STRANGERS == len(refused_records)
    mine = [record for record in refused_records if record.address == "127.0.0.1"]
    assert refused_requests.PER_CLIENT == len(mine)
    assert refused_requests.OMITTED == omitted.action
    assert 50 + 2 * refused_requests.PER_CLIENT + 3 * refused_requests.OF_STRANGERS == sum(
        record.requests for record in (*refused_records, omitted)
    )


@BOTH
def test_records_are_listed_newest_first_by_page_and_filtered(audited):
    first_node, second_node = audited.node(), audited.node()
    forget(audited)
    for node in (first_node, second_node, first_node):
        audited("PUT", f"/v1/nodes/{node['uuid']}/maintenance")
    audited("DELETE", f"/v1/nodes/{first_node['uuid']}/maintenance")
    audited("POST", "/v1/nodes", {"driver": "no-such"})
    records(audited)

    def listed(query=""):
        answer = audited("GET", f"/v1/audit?{query}")
        assert 200 == answer.status_code, answer.text
        return answer.json["audit"]

    everything = listed()
    assert ["create/node", "delete/node/maintenance", *["update/node/maintenance"] * 3] == [
        record["action"] for record in everything
    ]
    pages, query = [], "limit=2"
    while query:
        page = audited("GET", f"/v1/audit?{query}").json
        pages += page["audit"]
        query = page.get("next", "").partition("?")[2]
    assert everything == pages
    assert everything[::-1] == listed("sort_dir=asc")
    assert 2 == len(listed(f"target={first_node['uuid']}&action=update/node"))
    assert 4 == len(listed("action=update/node")) + len(listed("action=delete"))
    assert [] == listed("action=update/no")
    assert [] == listed("action=update/nod_")
    assert 1 == len(listed("outcome=failure"))
    assert 5 == len(listed("address=127.0.0.1"))
    assert [] == listed("user=bob")
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat().replace("+", "%2B")
    assert 5 == len(listed(f"until={soon}"))
    assert [] == listed(f"since={soon}")


@pytest.mark.parametrize(
    "query",
    ["since=yesterday", "marker=x", f"marker={2**63}", "outcome=maybe", "sort_key=user_id",
     "since=0001-01-01T00:00:00%2B23:00", "nodes=1", "limit=0"],
)  # fmt: skip
def test_wrong_parameters_are_refused_by_name(audited, query):
    answer = audited("GET", f"/v1/audit?{query}")
    assert 400 == answer.status_code
    assert query.partition("=")[0] in fault(answer)["faultstring"].lower()


def test_a_marker_that_is_gone_is_not_found(audited):
    assert 404 == audited("GET", "/v1/audit?marker=1").status_code


@BOTH
def test_old_records_and_surplus_refused_ones_are_deleted(audited):
    runtime = audited.runtime
    days, refused = 30, 3
    with runtime.transaction() as session:
        for age, outcome in (
            (31, "success"),
            (29, "success"),
            *((1, "denied"),) * 5,
            (31, "denied"),
        ):
            session.add(
                AuditRecord(action="a", outcome=outcome, auth="", created_at=after(-86400 * age))
            )
    audit_settings = replace(runtime.settings.audit, keep_days=days, keep_refused=refused)
    runtime = replace(runtime, settings=replace(runtime.settings, audit=audit_settings))
    assert 4 == prune_audit(runtime)
    assert ["success", *["denied"] * refused] == [record.outcome for record in records(audited)]
    assert 0 == prune_audit(runtime)


def test_a_disabled_audit_records_nothing(audited):
    settings = audited.runtime.settings
    off = replace(settings, audit=replace(settings.audit, enabled=False))
    client = create_app(replace(audited.runtime, settings=off)).test_client()
    quiet = replace(audited, client=client)
    assert 201 == quiet("POST", "/v1/nodes", {"driver": "fake-hardware"}).status_code
    assert 404 == quiet("DELETE", "/v1/nodes/missing").status_code
    assert [] == records(audited)


def test_a_change_is_refused_if_its_record_cannot_be_written(audited, monkeypatch):
    node = audited.node()

    def fail(*_):
        raise OperationalError("INSERT", {}, Exception("disk full"))

    monkeypatch.setattr(kit_audit, "add", fail)
    path = f"/v1/nodes/{node['uuid']}"
    assert audited("PUT", f"{path}/maintenance").status_code >= 500
    assert not audited("GET", path).json["maintenance"]
    event = BODIES["POST /v1/events"]
    assert 503 == audited("POST", "/v1/events", event).status_code


def test_passwords_are_recorded_as_logins_and_denials_and_unknown_names_are_not(audited, tmp_path):
    hashed = bcrypt.hashpw(b"sesame", bcrypt.gensalt(4)).decode()
    users = tmp_path / "htpasswd"
    users.write_text(f"ali:{hashed}\n")
    settings = audited.runtime.settings
    default = replace(
        settings.default, auth_strategy="http_basic", http_basic_auth_user_file=str(users)
    )
    runtime = replace(audited.runtime, settings=replace(settings, default=default))
    basic = replace(audited, client=create_app(runtime).test_client())

    def get(user, password):
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        return basic("GET", "/v1/nodes", Authorization=f"Basic {token}").status_code

    assert [200, 200, 401, 401, 401] == [
        get("ali", "sesame"), get("ali", "sesame"), get("ali", "wrong"), get(VALUE, "sesame"),
        basic("GET", "/v1/nodes").status_code,
    ]  # fmt: skip
    login, wrong, stranger = records(basic)
    assert ("authenticate/login", "success", "ali", "http_basic") == (
        login.action, login.outcome, login.user_id, login.auth,
    )  # fmt: skip
    assert ("read/node", "denied", None, "ali", 1) == (
        wrong.action, wrong.outcome, wrong.user_id, wrong.user_name, wrong.requests,
    )  # fmt: skip
    assert (None, 2) == (stranger.user_name, stranger.requests)
