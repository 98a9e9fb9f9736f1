"""
Facts that callers of a project can find out about nodes and values that they may not see.

Lists disclose values by their order, by the page that follows a marker, and by the difference
between an unknown name and that of a concealed resource.
"""

import pytest

from app.api.request.redaction import MACHINE_FAILED
from drivers.core.errors import LoginRefused, Refused, Unexpected, Unreachable
from drivers.fake.hardware import FakeManagement
from tests.contract.conftest import fault
from tests.contract.direct_calls import DirectCalls
from tests.contract.policy.conftest import LESSEE, OTHER, OWNER

MISSING = "9b0a6e9c-0f7e-4a2e-8f5e-0d9a3a8e6f11"


@pytest.fixture
def concealed(guarded):
    """Node of another project, with a name and a port group."""
    node = guarded.api.node(owner=OTHER, name="concealed", description="built for Contoso")
    group = {"node_uuid": node["uuid"], "name": "concealed-group"}
    assert 201 == guarded.api("POST", "/v1/portgroups", group).status_code
    return node


@pytest.mark.parametrize("field", ["description", "name", "lessee", "instance_uuid"])
def test_the_page_after_a_concealed_node_is_refused_as_after_an_unknown_one(
    guarded, concealed, field
):
    guarded.api.set(guarded.node, description="built for Consolidated", name="own")
    for direction in ("asc", "desc"):
        path = f"/v1/nodes?sort_key={field}&sort_dir={direction}&marker="
        answers = [
            guarded.ask("lessee-admin", "GET", path + ident)
            for ident in (concealed["uuid"], MISSING)
        ]
        assert [404, 404] == [answer.status_code for answer in answers]
        assert 200 == guarded.ask("lessee-admin", "GET", path + guarded.node).status_code
        assert 200 == guarded.ask("system-reader", "GET", path + concealed["uuid"]).status_code


def test_markers_of_all_lists_are_among_the_listed_resources(guarded, concealed):
    node, foreign = guarded.node, concealed["uuid"]
    markers = {}
    for ident, mac in ((node, 1), (foreign, 2)):
        body = {"node_uuid": ident, "address": f"02:00:00:00:00:0{mac}"}
        markers[ident] = guarded.api("POST", "/v1/ports", body).json["uuid"]
        history = guarded.api("PUT", f"/v1/nodes/{ident}/maintenance", {"reason": "why"})
        assert 202 == history.status_code
    path = "/v1/ports?sort_key=address&marker="
    assert 200 == guarded.ask("owner-reader", "GET", path + markers[node]).status_code
    assert 404 == guarded.ask("owner-reader", "GET", path + markers[foreign]).status_code

    entries = guarded.api("GET", f"/v1/nodes/{foreign}/history").json["history"]
    path = f"/v1/nodes/{node}/history?sort_key=event&marker={entries[0]['uuid']}"
    assert 404 == guarded.ask("owner-reader", "GET", path).status_code

    body = {"resource_class": "x", "owner": OTHER, "name": "theirs"}
    other = guarded.api("POST", "/v1/allocations", body).json["uuid"]
    path = f"/v1/allocations?sort_key=name&marker={other}"
    assert 404 == guarded.ask("owner-reader", "GET", path).status_code
    assert 200 == guarded.ask("other-reader", "GET", path).status_code


@pytest.mark.parametrize(
    "path",
    [
        "/v1/ports?node={}", "/v1/ports?portgroup={}-group", "/v1/portgroups?node={}",
        "/v1/volume/targets?node={}", "/v1/volume/connectors?node={}", "/v1/allocations?node={}",
        "/v1/events?node={}",
    ],
)  # fmt: skip
def test_a_filter_tells_no_concealed_name_from_an_unknown_one(guarded, concealed, path):
    guarded.api.set(guarded.node, name="own")
    for caller in ("owner-admin", "lessee-admin"):
        answers = [
            guarded.ask(caller, "GET", path.format(name)) for name in ("concealed", "unknown")
        ]
        assert answers[0].status_code == answers[1].status_code in {400, 404}
        texts = [
            fault(answer)["faultstring"].replace(name, "-")
            for answer, name in zip(answers, ("concealed", "unknown"), strict=True)
        ]
        assert texts[0] == texts[1]
        if "group" not in path:
            assert 200 == guarded.ask(caller, "GET", path.format("own")).status_code
    assert 200 == guarded.ask("system-reader", "GET", path.format("concealed")).status_code


def test_the_uuid_of_an_instance_does_not_disclose_its_node(guarded, concealed):
    guarded.api.set(concealed["uuid"], instance_uuid=MISSING)
    body = {"resource_class": "x", "uuid": MISSING}
    refused = guarded.ask("owner-member", "POST", "/v1/allocations", body)
    assert 409 == refused.status_code
    assert concealed["uuid"] not in refused.text
    assert concealed["uuid"] in guarded.ask("system-member", "POST", "/v1/allocations", body).text


@pytest.mark.parametrize("field", ["last_error", "reservation"])
def test_lists_are_not_sorted_by_a_field_that_the_caller_may_not_see(guarded, field):
    path = f"/v1/nodes?sort_key={field}"
    answer = guarded.ask("lessee-admin", "GET", path)
    assert 403 == answer.status_code
    assert f"baremetal:node:get:{field}" in fault(answer)["faultstring"]
    assert 200 == guarded.ask("system-reader", "GET", path).status_code


def test_webhooks_are_not_sorted_by_their_masked_urls(guarded):
    """A manager's own webhooks beside another one's would disclose its token by their order."""
    url = "http://192.0.2.1/?token=0123456789"
    body = {"name": "first", "url": url, "secret": "0123456789abcdef"}
    shown_url = guarded.ask("owner-manager", "POST", "/v1/webhooks", body).json["url"]
    assert "******" in shown_url
    assert 400 == guarded.ask("owner-manager", "GET", "/v1/webhooks?sort_key=url").status_code


@pytest.mark.parametrize("choice", ["execute_on_child_nodes", "limit_child_node_execution"])
@pytest.mark.parametrize(
    ("owner", "lessee", "refused"),
    [
        (OTHER, None, {"owner-admin", "lessee-admin"}),
        (OTHER, OWNER, {"owner-admin", "lessee-admin"}),
        (None, LESSEE, {"owner-admin"}),
        (OWNER, None, {"lessee-admin"}),
        (OWNER, LESSEE, set()),
    ],
)
def test_steps_run_on_child_nodes_of_the_callers_project_only(
    guarded, choice, owner, lessee, refused
):
    guarded.api.set(guarded.node, provision_state="manageable", last_error=None)
    child = guarded.api.node(owner=owner, lessee=lessee, parent_node=guarded.node)["uuid"]
    limit = {choice: True if choice == "execute_on_child_nodes" else [child]}
    steps = [{"interface": "power", "step": "power_off", **limit}]
    body = {"target": "clean", "clean_steps": steps, "dry_run": True}
    path = f"/v1/nodes/{guarded.node}/states/provision"
    for caller in ("owner-admin", "lessee-admin", "system-member"):
        answer = guarded.ask(caller, "PUT", path, body)
        assert 200 == answer.status_code, answer.text
        assert answer.json["accepted"] is (caller not in refused), answer.text
        if caller in refused:
            assert child not in str(answer.json["refused"])
            assert 400 == guarded.ask(caller, "PUT", path, {**body, "dry_run": False}).status_code


INFO = {"redfish_username": "bmc-user", "redfish_password": "BMC-PW"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"redfish_address": "ftp://bmc.internal"},
        {"redfish_address": "https://bmc.internal:84430/bmc"},
        {"redfish_address": "https://bmc.internal", "redfish_system_id": "Systems-7"},
        {"redfish_address": "https://bmc.internal", "redfish_system_id": 4711},
        {"redfish_address": "https://bmc.internal", "redfish_auth_type": "other-one"},
    ],
)
def test_errors_quote_no_driver_info_that_the_caller_may_not_see(guarded, wrong):
    node = guarded.api("POST", "/v1/nodes", {"driver": "redfish"}).json["uuid"]
    guarded.api.set(
        node, driver_info=INFO | wrong, provision_state="available", owner=OWNER, lessee=LESSEE
    )
    states, body = f"/v1/nodes/{node}/states/provision", {"target": "active"}
    quoted = {}
    for caller in ("owner-admin", "lessee-admin"):
        answers = [
            guarded.ask(caller, "GET", f"/v1/nodes/{node}/validate"),
            guarded.ask(caller, "PUT", states, body | {"dry_run": True}),
            guarded.ask(caller, "PUT", states, body),
        ]
        assert [200, 200, 400] == [answer.status_code for answer in answers]
        assert all("driver_info/redfish_" in answer.text for answer in answers)
        quoted[caller] = [
            value
            for answer in answers
            for value in map(str, wrong.values())
            if value in answer.text
        ]
    assert [] == quoted["lessee-admin"]
    assert 3 == len(quoted["owner-admin"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"redfish_address": "https://169.254.169.254:8443/bmc"},
        {"redfish_address": "ftp://bmc.internal/" + 300 * "b"},
        {"redfish_address": "https://bmc.internal\\bmc"},
    ],
    ids=["denied", "long", "escaped"],
)
def test_errors_quote_no_part_of_driver_info_that_the_caller_may_not_see(guarded, wrong):
    node = guarded.api("POST", "/v1/nodes", {"driver": "redfish"}).json["uuid"]
    guarded.api.set(node, driver_info=INFO | wrong, owner=OWNER, lessee=LESSEE)
    answer = guarded.ask("lessee-admin", "GET", f"/v1/nodes/{node}/validate")
    assert "driver_info/redfish_address" in answer.text
    assert "bmc.internal" not in answer.text
    assert "169.254" not in answer.text


@pytest.mark.parametrize("error", [Refused, Unexpected, LoginRefused, Unreachable])
@pytest.mark.parametrize(
    ("path", "lessees"),
    [
        ("indicators", ["lessee-reader"]), ("indicators/led@system", ["lessee-reader"]),
        ("sensors", ["lessee-reader"]), ("boot_device", []), ("boot_device/supported", []),
    ],
)  # fmt: skip
def test_words_of_a_bmc_are_shown_to_callers_who_see_the_last_error(
    guarded, monkeypatch, path, lessees, error
):
    words = "BMC failed: iDRAC 7XK2 (idrac-7xk2.mgmt.example, 10.0.0.7): session of root refused"

    def fail(*_given, **_named):
        raise error(words)

    for method in ("indicators", "get_indicator", "get_boot_device", "supported_boot_devices",
                   "sensors"):  # fmt: skip
        monkeypatch.setattr(FakeManagement, method, fail)
    monkeypatch.setattr(guarded.api.runtime, "calls", DirectCalls(guarded.api.runtime))
    ask = guarded.make(api={"call_timeout": 7.0})  # an application of its own, with these calls
    path = f"/v1/nodes/{guarded.node}/management/{path}"
    for caller in ("system-admin", "owner-admin", *lessees):
        answer = ask(caller, "GET", path)
        assert (504 if error is Unreachable else 502) == answer.status_code, (caller, answer.text)
        assert (caller not in lessees) == (words in answer.text)
        assert (caller in lessees) == (MACHINE_FAILED in answer.text)


def test_the_image_of_a_virtual_medium_is_shown_to_callers_who_see_the_nodes_secrets(
    guarded, monkeypatch
):
    """A boot medium has the token of the agent, and only its URL is secret."""
    image = "http://user:Url-PW@files.example/nodes/n/Url-Secret/boot.iso"
    drives = [
        {"media_types": [kind], "inserted": bool(image), "image": image}
        for kind, image in (("cdrom", image), ("floppy", ""))
    ]
    monkeypatch.setattr(FakeManagement, "virtual_media", lambda _self, _target: drives)
    monkeypatch.setattr(guarded.api.runtime, "calls", DirectCalls(guarded.api.runtime))
    ask = guarded.make(api={"call_timeout": 7.0})
    for caller in ("system-reader", "owner-reader", "lessee-reader", "lessee-admin"):
        answer = ask(caller, "GET", f"/v1/nodes/{guarded.node}/vmedia")
        images = [drive["image"] for drive in answer.json]
        assert "Url-PW" not in answer.text
        assert images == ["******" if "lessee" in caller else image.replace("Url-PW", "******"), ""]


def test_a_foreign_port_group_is_unknown_to_the_ports_of_a_node(guarded, concealed):
    foreign = guarded.api("GET", "/v1/portgroups/concealed-group").json["uuid"]
    port = {"node_uuid": guarded.node, "address": "02:00:00:00:00:07"}
    texts = set()
    for group in (foreign, MISSING):
        answer = guarded.ask("owner-admin", "POST", "/v1/ports", port | {"portgroup_uuid": group})
        assert 400 == answer.status_code
        texts.add(answer.text.replace(group, "-"))
    assert 1 == len(texts)


def test_an_error_names_no_holder_that_the_caller_may_not_see(guarded):
    guarded.api.set(guarded.node, reservation="conductor-7")
    path, change = f"/v1/nodes/{guarded.node}", [{"op": "add", "path": "/extra/a", "value": 1}]
    owner_answer = guarded.ask("owner-admin", "PATCH", path, change)
    lessee_answer = guarded.ask("lessee-admin", "PATCH", path, change)
    assert 409 == owner_answer.status_code == lessee_answer.status_code
    assert "conductor-7" in owner_answer.text
    assert "conductor-7" not in lessee_answer.text


def test_an_error_about_a_part_names_no_holder_that_the_caller_may_not_see(guarded):
    guarded.api.set(guarded.node, last_error=None)
    connector = {"node_uuid": guarded.node, "type": "iqn", "connector_id": "iqn.a"}
    uuid = guarded.api("POST", "/v1/volume/connectors", connector).json["uuid"]
    guarded.api.set(guarded.node, reservation="conductor-7")
    change = [{"op": "replace", "path": "/connector_id", "value": "iqn.c"}]
    for method, body in (("PATCH", change), ("DELETE", None)):
        for caller, sees_holder in (("owner-admin", True), ("lessee-admin", False)):
            answer = guarded.ask(caller, method, f"/v1/volume/connectors/{uuid}", body)
            assert 409 == answer.status_code, answer.text
            assert sees_holder == ("conductor-7" in answer.text)


def test_errors_quote_no_credentials_in_urls(guarded):
    url = "ftp://user:Url-PW@bmc.internal?sig=Url-SIG"
    node = guarded.api("POST", "/v1/nodes", {"driver": "redfish"}).json["uuid"]
    info = INFO | {"redfish_address": url}
    guarded.api.set(node, driver_info=info, provision_state="available")
    states, body = f"/v1/nodes/{node}/states/provision", {"target": "active"}
    for ask in (guarded.api, lambda *request: guarded.ask("system-admin", *request)):
        for answer in (ask("GET", f"/v1/nodes/{node}/validate"), ask("PUT", states, body)):
            assert "driver_info/redfish_address" in answer.text
            assert "Url-" not in answer.text


HTTP = {"image_source": "http://192.0.2.1/image", "image_server_user": "u"}


@pytest.mark.parametrize(
    ("caller", "field", "document", "address", "other", "secret"),
    [
        ("owner-admin", "driver_info", INFO | {"redfish_address": "https://192.0.2.1"},
         "redfish_address", "https://192.0.2.9",
         "redfish_password"),
        ("owner-member", "driver_info", {"ipmi_address": "a", "ipmi_password": "p"},
         "ipmi_address", "192.0.2.9", "ipmi_password"),
        ("lessee-manager", "instance_info", HTTP | {"image_server_password": "p"},
         "image_source", "http://192.0.2.9/image", "image_server_password"),
    ],
)  # fmt: skip
def test_a_secret_is_not_sent_to_an_address_of_a_caller_who_does_not_know_it(
    guarded, caller, field, document, address, other, secret
):
    guarded.api.set(guarded.node, **{field: document}, last_error=None)
    path = f"/v1/nodes/{guarded.node}"
    move = [{"op": "add", "path": f"/{field}/{address}", "value": other}]
    refused = guarded.ask(caller, "PATCH", path, move)
    assert 400 == refused.status_code, refused.text
    assert f"{field}/{address}" in refused.text
    assert secret in refused.text

    again = [*move, {"op": "add", "path": f"/{field}/{secret}", "value": document[secret]}]
    away = [{"op": "remove", "path": f"/{field}/{secret}"}, *move]
    whole = [{"op": "replace", "path": f"/{field}", "value": document | {address: other}}]
    for requester, patch in (
        (caller, again),
        (caller, whole),
        ("system-admin", move),
        (caller, away),
    ):
        guarded.api.set(guarded.node, **{field: document})
        answer = guarded.ask(requester, "PATCH", path, patch)
        assert 200 == answer.status_code, answer.text
        assert other == guarded.api("GET", path).json[field][address]

    same = [{"op": "add", "path": f"/{field}/{address}", "value": f"{document[address]}/2"}]
    guarded.api.set(guarded.node, **{field: document})
    assert 200 == guarded.ask(caller, "PATCH", path, same).status_code
