"""Permissions on nodes and their ports, by real requests."""

import pytest

from app.api.request.redaction import MACHINE_FAILED
from app.engine import rpc
from app.errors import GatewayTimeout
from tests.contract.conftest import fault

from .conftest import (
    LESSEE,
    OPERATE,
    OTHER,
    OWN,
    OWNER,
    PEOPLE,
    SEE,
    SEE_WITHIN,
    SET_UP,
    SYSTEM_ADMIN,
    SYSTEM_WORK,
    USE,
    WIRE,
    each_strategy,
    filled,
    people,
)

BMC = "https://192.0.2.9:8443"


def patch(field, value=None):
    change = {"op": "replace", "path": f"/{field}", "value": value}
    return ("PATCH", "/v1/nodes/{node}", [change])


#: (method, path, body) -> permitted callers. Callers that do not see the node get 404, others 403.
ON_NODE = [
    (("GET", "/v1/nodes/{node}"), SEE),
    (("GET", "/v1/nodes/{node}/states"), SEE),
    (("GET", "/v1/nodes/{node}/ports"), SEE),
    (("GET", "/v1/nodes/{node}/history"), SEE_WITHIN),
    (("GET", "/v1/nodes/{node}/sanitation"), SEE_WITHIN),
    (("GET", "/v1/nodes/{node}/benchmarks"), SEE_WITHIN),
    (("GET", "/v1/nodes/{node}/compliance"), SEE_WITHIN),
    (("GET", "/v1/nodes/{node}/operations"), SEE_WITHIN),
    (("GET", "/v1/nodes/{node}/agent-logs"), SEE_WITHIN),
    (("GET", "/v1/nodes/{node}/console"), OWN),
    (("POST", "/v1/nodes/{node}/console/tickets", {"write": True}), OWN),
    (("GET", "/v1/nodes/{node}/console/history"), OWN),
    (("PUT", "/v1/nodes/{node}/states/power", {"target": "power on"}), USE),
    (("PUT", "/v1/nodes/{node}/states/provision", {"target": "manage"}), OPERATE),
    (
        (
            "PUT",
            "/v1/nodes/{node}/states/provision",
            {"target": "clean", "clean_steps": [{"interface": "deploy", "step": "erase_devices"}]},
        ),
        OPERATE,
    ),
    (("PUT", "/v1/nodes/{node}/maintenance", {}), OPERATE),
    (("DELETE", "/v1/nodes/{node}/maintenance"), OPERATE),
    (patch("maintenance", True), OPERATE),
    (patch("maintenance", "false"), OPERATE),
    (
        ("PATCH", "/v1/nodes/{node}", [{"op": "remove", "path": "/maintenance"}]),
        OPERATE,
    ),
    (("GET", "/v1/nodes/{node}/validate"), OPERATE),
    (("GET", "/v1/nodes/validate?node={node}"), OPERATE),
    (patch("description", "d"), USE),
    (patch("extra", {}), USE),
    (patch("instance_info", {}), OPERATE),
    (patch("instance_name", "i"), OPERATE),
    (patch("driver_info", {}), OWN),
    (patch("properties/x", 1), OWN),
    (patch("instance_uuid", "9b0a6e9c-0f7e-4a2e-8f5e-0d9a3a8e6f11"), OWN),
    (patch("lessee", LESSEE), OWN),
    (patch("network_data", {}), OWN),
    (patch("name", "n"), OWN),
    (patch("retired", True), OWN),
    (patch("retired_reason", "old"), OWN),
    (patch("driver", "fake-hardware"), SET_UP),
    (patch("deploy_interface", "fake"), SET_UP),
    (patch("owner", OWNER), SYSTEM_WORK),
    (patch("conductor_group", ""), SYSTEM_WORK),
    (patch("parent_node", "{foreign}"), SYSTEM_WORK),
    (patch("chassis_uuid", "9b0a6e9c-0f7e-4a2e-8f5e-0d9a3a8e6f11"), SYSTEM_ADMIN),
    (patch("shard", "s"), SYSTEM_ADMIN),
    (patch("disable_power_off", True), SYSTEM_ADMIN),
    (patch("automated_clean", False), SYSTEM_ADMIN),
    (patch("automated_clean", True), USE),
    (
        ("PATCH", "/v1/nodes/{node}", [*patch("extra", {})[2], *patch("driver_info", {})[2]]),
        OWN,
    ),
    (("GET", "/v1/ports/{port}"), SEE),
    (("PATCH", "/v1/ports/{port}", [{"op": "add", "path": "/extra/a", "value": 1}]), SET_UP),
    (("DELETE", "/v1/ports/{port}"), WIRE),
    (("DELETE", "/v1/nodes/{node}"), SYSTEM_ADMIN | {"owner-admin"}),
]


@each_strategy
@pytest.mark.parametrize(
    ("request_", "allowed"), ON_NODE, ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else ""
)  # fmt: skip
def test_permissions_on_a_node(guarded, request_, allowed):
    port = guarded.api(
        "POST", "/v1/ports", {"node_uuid": guarded.node, "address": "02:00:00:00:00:01"}
    )
    idents = {"node": guarded.node, "foreign": guarded.foreign, "port": port.json["uuid"]}
    for caller in sorted(
        guarded.people, key=lambda caller: caller in allowed
    ):  # permitted callers change it last
        method, path, *body = filled(list(request_), **idents)
        status = guarded.ask(caller, method, path, *body).status_code

        if caller in allowed:
            assert status not in (401, 403), caller
            if "validate" not in path and method != "DELETE":
                assert 404 != status, caller
        elif caller in SEE or caller == "domain-admin":
            assert 403 == status, caller
        else:
            assert 404 == status, caller


#: Requests about no node.
ELSEWHERE = [
    (("GET", "/v1/conductors"), people("system-reader") | {"system-service"}),
    (("GET", "/v1/drivers"), people("system-reader") | {"system-service"}),
    (("GET", "/v1/drivers/fake-hardware/properties"), people("system-reader") | {"system-service"}),
    (("POST", "/v1/ports", {"node_uuid": "{node}", "address": "02:00:00:00:00:02"}), WIRE),
    (("POST", "/v1/nodes", {"driver": "no-such"}),
     {f"{scope}-{role}" for scope in ("system", "owner", "lessee", "other")
      for role in ("admin", "service")} | {"service-project"}),
    *((("GET", f"/v1/{name}"),
       {caller for caller in PEOPLE if caller not in ("nobody", "domain-admin")})
      for name in ("nodes", "nodes/detail", "provision_states", "ports", "ports/detail")),
]  # fmt: skip


@each_strategy
@pytest.mark.parametrize(("request_", "allowed"), ELSEWHERE)
def test_permissions_without_a_resource(guarded, request_, allowed):
    for caller in guarded.people:
        method, path, *body = filled(list(request_), node=guarded.node)

        assert (caller in allowed) == (
            guarded.ask(caller, method, path, *body).status_code != 403
        ), caller


@pytest.mark.parametrize("state", ["boot_mode", "secure_boot", "raid"])
def test_a_missing_permission_is_reported_in_every_version(guarded, state):
    client = guarded.make()

    answer = client("system-reader", "PUT", f"/v1/nodes/{guarded.node}/states/{state}", {}, "1.1")
    assert 403 == answer.status_code


def test_missing_and_invisible_nodes_get_the_same_answers(guarded):
    missing = "9b0a6e9c-0f7e-4a2e-8f5e-0d9a3a8e6f11"
    for method, path in (("GET", "/v1/nodes/{}"), ("PUT", "/v1/nodes/{}/maintenance")):
        answers = [
            guarded.ask("owner-admin", method, path.format(ident))
            for ident in (guarded.foreign, missing)
        ]

        assert [404, 404] == [answer.status_code for answer in answers]
        messages = [fault(answer)["faultstring"].replace(ident, "-")
                for answer, ident in zip(answers, (guarded.foreign, missing), strict=True)]  # fmt: skip
        assert 1 == len(set(messages))


@each_strategy
@pytest.mark.parametrize(
    ("caller", "sees"),
    [
        ("system-reader", {"node", "foreign"}),
        ("system-service", {"node", "foreign"}),
        ("owner-reader", {"node"}),
        ("lessee-reader", {"node"}),
        ("owner-service", {"node"}),
        ("other-admin", set()),
    ],
)
def test_lists_have_the_nodes_that_the_callers_project_owns_or_leases(guarded, caller, sees):
    expected = {getattr(guarded, name) for name in sees}
    for number, node in enumerate((guarded.node, guarded.foreign)):
        body = {"node_uuid": node, "address": f"02:00:00:00:00:0{number}"}
        assert 201 == guarded.api("POST", "/v1/ports", body).status_code

    for path in ("/v1/nodes", "/v1/nodes/detail", "/v1/nodes?owner=" + OWNER):
        listed = {entry["uuid"] for entry in guarded.ask(caller, "GET", path).json["nodes"]}
        assert (expected - {guarded.foreign} if "owner=" in path else expected) == listed
    assert len(expected) == guarded.ask(caller, "GET", "/v1/provision_states").json["nodes"]
    ports = guarded.ask(caller, "GET", "/v1/ports?detail=true").json["ports"]
    assert expected == {port["node_uuid"] for port in ports}
    foreign = guarded.ask(caller, "GET", f"/v1/ports?node={guarded.foreign}&detail=true")
    assert (200 if guarded.foreign in expected else 404) == foreign.status_code
    ports = foreign.json.get("ports", [])
    assert expected & {guarded.foreign} == {port["node_uuid"] for port in ports}


@pytest.mark.parametrize(
    ("caller", "may"), [("owner-reader", False), ("system-reader", False), ("owner-member", True)]
)
def test_why_offers_no_verb_that_the_caller_may_not_request(guarded, caller, may):
    guarded.api.set(guarded.node, provision_state="manageable")
    answer = guarded.ask(caller, "GET", f"/v1/nodes/{guarded.node}/why").json
    body = {"target": "provide", "dry_run": True}
    request = guarded.ask(caller, "PUT", f"/v1/nodes/{guarded.node}/states/provision", body)
    assert may == (200 == request.status_code) == ("provide" in answer["verbs"])
    if not may:
        assert ([], fault(request)["faultstring"]) == (
            answer["verbs"], answer["refused_verbs"]["provide"],
        )  # fmt: skip
        assert "no verb: each one is refused" == answer["next"]


REDACTED = ("last_error", "reservation", "driver_info", "driver_internal_info")


@pytest.mark.parametrize(
    ("caller", "redacted"),
    [("system-reader", False), ("owner-reader", False), ("lessee-admin", True)],
)
@pytest.mark.parametrize("path", ["/v1/nodes/{node}", "/v1/nodes?detail=true", "/v1/nodes?fields=driver_info,uuid", "/v1/nodes/{node}/states"])  # fmt: skip
def test_a_lessee_does_not_see_all_fields_of_a_node(guarded, caller, redacted, path):
    guarded.api.set(guarded.node, driver_info={"address": "10.0.0.1"}, reservation="rack-1")
    document = guarded.ask(caller, "GET", path.format(node=guarded.node)).json
    document = next(node for node in document.get("nodes", [document])
                     if node.get("uuid", guarded.node) == guarded.node)  # fmt: skip

    for field in set(REDACTED) & document.keys():
        assert redacted == ("Redacted" in str(document[field])), field
    if "driver_info" in document:
        assert redacted == ("10.0.0.1" not in str(document["driver_info"]))


def refused(_call, _member):
    return {"status": 502, "message": f"BMC {BMC} refused: 192.0.2.9 is busy", "retry_after": None}


def unanswered(call, _member):
    raise GatewayTimeout(f"No answer {call._about}.")


@pytest.mark.parametrize("result", [refused, unanswered])
@pytest.mark.parametrize(("caller", "sees_bmc"), [("owner-reader", True), ("lessee-admin", False)])
def test_an_error_of_a_call_names_the_bmc_only_to_callers_who_see_driver_info(
    guarded, monkeypatch, caller, sees_bmc, result
):
    guarded.api.set(guarded.node, driver_info={"redfish_address": BMC})
    monkeypatch.setattr(rpc._PendingCall, "result_from", result)

    answer = guarded.ask(caller, "GET", f"/v1/nodes/{guarded.node}/management/indicators")

    assert answer.status_code in (502, 504)
    assert sees_bmc == ("192.0.2.9" in answer.text)
    concealed = MACHINE_FAILED if result is refused else "BMC ******"
    assert sees_bmc != (concealed in answer.text)


def test_a_lookup_shows_an_agent_fields_that_a_lessee_does_not_see(guarded):
    guarded.api.set(guarded.node, provision_state="inspect wait", driver_internal_info={"a": 1})
    path = f"/v1/lookup?node_uuid={guarded.node}"

    assert 1 == guarded.ask("none", "GET", path).json["node"]["driver_internal_info"]["a"]


def test_a_project_admin_enrolls_nodes_of_its_own_project_only(guarded):
    def enroll(ask, caller, **fields):
        return ask(caller, "POST", "/v1/nodes", {"driver": "fake-hardware", **fields})

    assert OTHER == enroll(guarded.ask, "other-admin").json["owner"]
    assert OTHER == enroll(guarded.ask, "other-admin", owner=OTHER).json["owner"]
    assert 400 == enroll(guarded.ask, "other-admin", owner=OWNER).status_code
    assert 403 == enroll(guarded.ask, "other-manager").status_code
    assert OWNER == enroll(guarded.ask, "system-admin", owner=OWNER).json["owner"]
    assert enroll(guarded.ask, "system-admin").json["owner"] is None

    ask = guarded.make(api={"project_admin_can_manage_own_nodes": False})
    assert 403 == enroll(ask, "other-admin").status_code
    assert 403 == ask("owner-admin", "DELETE", f"/v1/nodes/{guarded.node}").status_code


def test_the_service_project_has_system_access_by_a_setting(guarded):
    path = f"/v1/nodes/{guarded.foreign}"
    assert 404 == guarded.ask("service-project", "GET", path).status_code

    ask = guarded.make(default={"rbac_service_role_elevated_access": True})
    assert 200 == ask("service-project", "GET", path).status_code
    assert 2 == len(ask("service-project", "GET", "/v1/nodes").json["nodes"])
    options = {"rbac_service_role_elevated_access": True, "rbac_service_project_name": "services"}
    assert 404 == guarded.make(default=options)("service-project", "GET", path).status_code


def test_the_owner_of_an_active_node_is_changed_by_system_admins(guarded):
    guarded.api.set(guarded.node, provision_state="active")

    assert 409 == guarded.ask("system-member", *filled(list(patch("owner", OTHER)), node=guarded.node)).status_code  # fmt: skip
    assert 200 == guarded.ask("system-admin", *filled(list(patch("owner", OTHER)), node=guarded.node)).status_code  # fmt: skip


def test_an_invisible_parent_is_refused(guarded):
    ask = guarded.make()
    body = {"driver": "fake-hardware", "parent_node": guarded.foreign}

    assert 400 == ask("owner-admin", "POST", "/v1/nodes", body).status_code
    assert 201 == ask("owner-admin", "POST", "/v1/nodes", body | {"parent_node": guarded.node}).status_code  # fmt: skip
    assert 400 == ask("lessee-admin", "POST", "/v1/nodes", body | {"parent_node": guarded.node}).status_code  # fmt: skip


def test_children_of_other_projects_are_not_listed(guarded):
    own_node = guarded.api.node(owner=OWNER, parent_node=guarded.node)["uuid"]
    foreign = guarded.api.node(parent_node=guarded.node)["uuid"]
    path = f"/v1/nodes/{guarded.node}/children"

    assert [own_node] == guarded.ask("owner-reader", "GET", path).json["children"]
    assert [own_node, foreign] == guarded.ask("system-reader", "GET", path).json["children"]


def test_a_port_is_not_moved_to_a_node_of_another_project(guarded):
    port = guarded.api(
        "POST", "/v1/ports", {"node_uuid": guarded.node, "address": "02:00:00:00:00:01"}
    )
    move = [{"op": "replace", "path": "/node_uuid", "value": guarded.foreign}]

    path = f"/v1/ports/{port.json['uuid']}"
    assert 403 == guarded.ask("owner-admin", "PATCH", path, move).status_code
    assert 200 == guarded.ask("system-member", "PATCH", path, move).status_code


SECRET = {"redfish_password": "sesame"}


@pytest.mark.parametrize("strategy", ["keystone", "noauth"])
def test_secrets_are_shown_to_callers_that_a_policy_file_names(guarded, tmp_path, strategy):
    guarded.api.set(guarded.node, driver_info=SECRET, instance_info={"token": "t"})
    policy = tmp_path / "policy.yaml"
    passes = "role:admin and system_scope:all" if strategy == "keystone" else ""
    policy.write_text(f'"show_password": "{passes}"\n')
    path = f"/v1/nodes/{guarded.node}"

    assert "sesame" not in guarded.ask("system-admin", "GET", path).text
    ask = guarded.make(
        default={"auth_strategy": strategy}, oslo_policy={"policy_file": str(policy)}
    )
    document = ask("system-admin", "GET", path).json
    assert (SECRET, {"token": "******"}) == (document["driver_info"], document["instance_info"])
    if strategy == "keystone":
        assert "sesame" not in ask("owner-admin", "GET", path).text


def test_policy_files_replace_rules(guarded, tmp_path):
    policy, folder = tmp_path / "policy.yaml", tmp_path / "policy.d"
    policy.write_text('"baremetal:node:get": "rule:anybody_who_reads"\n')
    folder.mkdir()
    (folder / "more.yaml").write_text(
        '"baremetal:node:set_maintenance": "user_id:ann and rule:is_node_lessee"\n'
        '"owner_manager": "!"\n'
    )
    ask = guarded.make(oslo_policy={"policy_file": str(policy), "policy_dirs": (str(folder),)})
    path = f"/v1/nodes/{guarded.node}"

    assert 200 == ask("other-reader", "GET", path).status_code
    assert 202 == ask("lessee-reader", "PUT", f"{path}/maintenance").status_code
    assert 403 == ask("system-admin", "PUT", f"{path}/maintenance").status_code
    body = {"node_uuid": guarded.node, "address": "02:00:00:00:00:01"}
    assert 403 == ask("owner-admin", "POST", "/v1/ports", body).status_code


def test_scopes_are_enforced_unless_a_setting_disables_it(guarded, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text('"baremetal:driver:get": "rule:anybody_who_reads"\n')
    options = {"policy_file": str(policy)}

    ask = guarded.make(oslo_policy=options)
    assert 403 == ask("owner-reader", "GET", "/v1/drivers").status_code
    ask = guarded.make(oslo_policy=options | {"enforce_scope": False})
    assert 200 == ask("owner-reader", "GET", "/v1/drivers").status_code


@pytest.mark.parametrize(
    ("caller", "project"),
    [
        ("system-member", None),
        ("owner-service", None),
        ("owner-member", OWNER),
        ("owner-admin", OWNER),
        ("lessee-manager", LESSEE),
    ],
)
def test_callers_of_a_project_attach_its_vifs(guarded, monkeypatch, caller, project):
    """None: the VIFs of all projects."""
    projects = []
    monkeypatch.setattr(
        "app.engine.vif_calls.attach",
        lambda _runtime, _ident, _vif, vif_project: projects.append(vif_project),
    )
    monkeypatch.setattr("app.api.node.vifs._is_remote", lambda _context, _ident: True)
    answer = guarded.ask(caller, "POST", f"/v1/nodes/{guarded.node}/vifs", {"id": "v1"})
    assert (204, [project]) == (answer.status_code, projects)
