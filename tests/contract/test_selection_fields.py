"""Fields of selections: compared values, and free words."""

from datetime import timedelta
from urllib.parse import quote

import pytest
from sqlalchemy import insert, select

from app.db.clock import after
from app.models import Hold, Node, NodeTrait, Operation, Port
from app.selection.conditions import FIELDS

UUID = "ab000000-0000-4000-8000-00000000000{}".format
#: Field that free words search -> value of a node's column, and a part of it.
FREE_COLUMNS = {
    "name": ("Rack1-u1", "CK1-U"), "provision_state": ("clean failed", "N FAI"), "last_error": ("Timed out", "ED OUT"),
    "driver": ("manual-management", "l-man"), "resource_class": ("Large", "lARG"), "conductor_group": ("edge", "DGE"),
    "shard": ("Row-1", "row-1"), "description": ("Under the Stairs", "the stairs"), "instance_name": ("Web-1", "web"),
    "instance_uuid": (UUID(1), UUID(1)[:9].upper()),
}  # fmt: skip
#: Fields with rows or documents of their own, which free words search, too.
FREE_OTHERS = {"uuid", "failure_code", "trait", "mac", "bmc"}
#: Column that free words do not search -> its value.
NOT_FREE = {
    "owner": "tenant", "lessee": "tenant", "maintenance_reason": "tenant", "protected_reason": "tenant",
    "retired_reason": "tenant", "reservation": "tenant", "extra": {"key": "tenant"}, "properties": {"key": "tenant"},
    "health": "tenant", "boot_mode": "tenant", "fault": "tenant", "driver_info": {"key": "tenant"},
}  # fmt: skip

both = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


def selected(api, condition):
    """Return the UUIDs of the nodes that an expression selects."""
    answer = api("GET", f"/v1/nodes?fields=uuid&include_children=true&where={quote(condition)}")
    assert 200 == answer.status_code, (condition, answer.text)
    return [node["uuid"] for node in answer.json["nodes"]]


def add(api, model, node, **columns):
    """Insert a row that belongs to a node."""
    with api.runtime.transaction() as session:
        ident = session.scalar(select(Node.id).where(Node.uuid == node))
        session.execute(insert(model).values(node_id=ident, **columns))


def fail(api, node, error, number):
    add(
        api, Operation, node, uuid=UUID(number), kind="clean", state="failed", error=error,
        created_at=after(-9.0), finished_at=after(-5.0),
    )  # fmt: skip


@pytest.fixture
def other(api):
    """UUID of a node without values."""
    return api.node(driver="fake-hardware")["uuid"]


def test_free_words_search_the_fields_of_the_documentation():
    assert {*FREE_COLUMNS, *FREE_OTHERS} == {field.name for field in FIELDS if field.free}


@both
def test_free_words_search_each_column(api, other):
    for name, (value, part) in FREE_COLUMNS.items():
        node = api.node(**{name: value})["uuid"]
        assert [node] == selected(api, f'"{part}"'), name
        assert other in selected(api, f'not "{part}"'), name
        api.set(node, name=None, driver="fake-hardware", provision_state="enroll")


@both
def test_free_words_search_related_rows_and_documents(api, other):
    node = api.node(driver_info={"ipmi_address": "BMC-1.example"})["uuid"]
    add(api, NodeTrait, node, trait="CUSTOM_GPU")
    add(api, Port, node, uuid=UUID(1), address="aa:bb:cc:dd:ee:ff")
    fail(api, node, {"code": "unreachable", "step": "power.reboot"}, 2)
    for word in (
        "custom_g", "CUSTOM_*", "BB:CC", "AA:BB:CC:*", "reach", "unreach*", "mc-1.EX", "BMC-1.*",
        node[:13].upper(), f"{node[:13].upper()}*",
    ):  # fmt: skip
        assert [node] == selected(api, word), word
        assert [other] == selected(api, f"not {word}"), word
    for word in ("reboot", "custom_*", "bmc-1.*", "power.*"):  # steps; patterns compare capitals
        assert [] == selected(api, word), word


@both
def test_free_words_search_no_other_field(api):
    api.node(**NOT_FREE)
    assert [] == selected(api, "tenant")
    assert [] == selected(api, "tenant*")


@both
@pytest.mark.parametrize(
    "name", ["uuid", "chassis_uuid", "parent_node", "instance_uuid", "conductor_group", "mac"]
)
def test_values_that_are_stored_in_small_letters_are_compared_in_any(api, other, name):
    value = (
        "edge" if name == "conductor_group" else "aa:bb:cc:dd:ee:ff" if name == "mac" else UUID(1)
    )
    if name in ("chassis_uuid", "parent_node"):
        path = {"chassis_uuid": "chassis", "parent_node": "nodes"}[name]
        body = {"uuid": value} | ({"driver": "fake-hardware"} if path == "nodes" else {})
        assert 201 == api("POST", f"/v1/{path}", body).status_code
    node = api.node(**({} if name in ("mac", "uuid") else {name: value}))["uuid"]
    if name == "mac":
        add(api, Port, node, uuid=UUID(1), address=value)
    value = node if name == "uuid" else value
    for text in (value.upper(), f"{value[:-1].upper()}*", f"{value.upper()},x"):
        assert [node] == selected(api, f"{name}={text}"), text


@both
def test_a_hold_is_selected_until_it_expires(api, other):
    node = api.node()["uuid"]
    row = {"uuid": UUID(1), "kind": "hardware", "reason": "dust"}
    add(api, Hold, node, **row, expires_at=after(3600.0))
    add(api, Hold, other, **row | {"uuid": UUID(2)}, expires_at=after(-1.0))
    assert [node] == selected(api, "hold=hardware")
    assert [other] == selected(api, "hold!=hardware")
    assert [] == selected(api, "hold=investigation")


@both
def test_failures_are_selected_by_code_and_by_step(api, other):
    node = api.node()["uuid"]
    fail(api, node, {"code": "timeout", "step": "power.reboot"}, 1)
    fail(api, other, {"code": "refused", "step": "deploy.boot"}, 2)
    assert [node] == selected(api, "failure_code=timeout")
    assert [node] == selected(api, "failure_step=power.*")
    assert [other] == selected(api, "failure_code~FUSE failure_step=deploy.boot")
    assert [] == selected(api, "failure_code=power.reboot or failure_step=timeout")


@both
def test_an_address_with_credentials_query_or_fragment_is_not_compared(api):
    hidden = [
        api.node(driver_info={key: f"https://10.0.0.5/{secret}"})["uuid"]
        for key, secret in (
            ("redfish_address", "me:pw@x"), ("redfish_address", "?token=pw"), ("ipmi_address", "#pw")
        )
    ]  # fmt: skip
    node = api.node(driver_info={"redfish_address": "https://10.0.0.5/pw"})["uuid"]
    for condition in ("bmc~pw", "bmc=10.0.0.5", "bmc=*", "10.0.0.5/", "https://10.0.0.5/*"):
        assert [node] == selected(api, condition), condition
    assert hidden == selected(api, "not bmc=*")


@both
def test_the_host_of_an_address_is_compared_in_each_form(api, other):
    nodes = [
        api.node(driver_info={key: address})["uuid"]
        for key, address in (
            ("ipmi_address", "10.0.0.5"), ("ipmi_address", "10.0.0.5:623"), ("ipmi_address", "10.0.0.5/x"),
            ("redfish_address", "https://10.0.0.5"), ("redfish_address", "http://10.0.0.5:8000"),
            ("redfish_address", "https://10.0.0.5/redfish"),
        )
    ]  # fmt: skip
    api.node(driver_info={"ipmi_address": "10.0.0.57"})
    api.node(driver_info={"redfish_address": "https://110.0.0.5"})
    assert nodes == selected(api, "bmc=10.0.0.5")
    assert nodes == selected(api, "bmc in (10.0.0.5, 10.9.9.9)")
    assert nodes[:3] == selected(api, "not bmc=http* bmc=10.0.0.5")


@both
def test_an_address_is_a_text(api, other):
    nodes = [
        api.node(driver_info=info)["uuid"]
        for info in (
            {"ipmi_address": 5}, {"ipmi_address": 5, "redfish_address": "http://15/a"}, {"redfish_address": True},
        )
    ]  # fmt: skip
    for condition in ("bmc=5", "bmc~tru", "bmc=5*", "bmc=true"):
        assert [] == selected(api, condition), condition
    assert [nodes[1]] == selected(api, "bmc=*")
    assert [other, nodes[0], nodes[2]] == selected(api, "not bmc=*")


@both
def test_addresses_and_errors_are_compared_in_their_case(api, other):
    node = api.node(driver_info={"ipmi_address": "BMC-1.Example"}, last_error="Timed OUT")["uuid"]
    for condition in (
        "bmc=BMC-1.*", "bmc=BMC-1.Example", "bmc~bmc-1.EX", "last_error=Timed*", "last_error='Timed OUT'",
        "last_error~timed", "last_error=* bmc=*", "last_error~x or bmc=B*", "last_error in (x, *OUT)",
    ):  # fmt: skip
        assert [node] == selected(api, condition), condition
        assert [other] == selected(api, f"not ({condition})"), condition
    for condition in (
        "bmc=bmc-1.*",
        "bmc=bmc-1.example",
        "last_error=timed*",
        "last_error='timed out'",
    ):
        assert [] == selected(api, condition), condition


@both
def test_flags_of_values(api, other):
    instance = api.node(instance_uuid=UUID(1))["uuid"]
    shard = api.node(shard="row-1", owner="me", instance_name="web")["uuid"]
    assert [instance] == selected(api, "associated")
    assert [other, shard] == selected(api, "associated=no")
    assert [shard] == selected(api, "sharded")
    assert [other, instance] == selected(api, "not sharded")


@both
def test_a_time_span_ends_now(api, other):
    old, future = api.node()["uuid"], api.node()["uuid"]
    api.set(old, provision_updated_at=after(-timedelta(days=3).total_seconds()))
    api.set(future, provision_updated_at=after(3600.0))
    assert [old] == selected(api, "provision_updated_at before 2d")
    assert [old] == selected(api, "provision_updated_at < 2d")
    assert [future] == selected(api, "provision_updated_at since 2d")
    assert [old, future] == selected(api, "provision_updated_at > 4d")


@both
def test_documents_are_fields_by_their_keys_only(api):
    node = api.node(extra={"a b": 1, "k": {"l": {"m": "x"}}})["uuid"]
    assert [node] == selected(api, "extra.k.l.m=x")
    for condition in ("extra=x", "extra.=x", "driver_info.ipmi_address=x"):
        assert 400 == api("GET", f"/v1/nodes?where={quote(condition)}").status_code, condition


@both
@pytest.mark.parametrize(
    ("value", "comparison", "is_selected"),
    [
        (4, "=4", True), (4, "=4.0", True), ("4", "=4.0", True), (4.0, "=4", True), ("007", "=7", True), ("007", "=007", True),
        (4, "~4", True), (4.5, "~4", False), (4.5, "=4.5", True), (4.5, "=4*", False), (-3, "=-3", True), (-3, "~-3", True), ("-3", "<0", False),
        (True, "=true", True), (True, "=1", False), (False, "=false", True), (False, "~ALS", True), (True, ">0", False),
        ("9" * 15, ">1", True), ("9" * 16, ">1", False), ("", "<1", False), ("", "=''", True), ("x1", ">0", False), (0.5, "<1", True),
        (None, "=*", False), ([1], "=*", False), ({}, "=*", False), ("A", "=a", False), ("A", "~a", True), ("Ä", "~ä", False), ("ä", "~ä", True),
        (r"a\b", r"='a\\b'", True), (r"a\b", "=a*b", True), ("a%b", "=a%*", True), ("axb", "=a%*", False), ("a_b", "=a_*", True), ("axb", "=a_*", False),
        ("a[b]c", "=a[b]*", True), ("abc", "=a[b]*", False), ("a?c", "=a?*", True), ("abc", "=a?*", False), ("a*c", "='a*c'", True), ("abc", "='a*c'", False),
        (r"a\%", "=a*%", True), (1e16, "=*", False), (1e16, ">1", True), (4, " in (3, 4)", True), (4, " in (3, 4*)", True), (5, "!=4", True), (5, " in (5*, 6, 7)", True),
    ],
)  # fmt: skip
def test_values_of_documents_are_compared_alike(api, value, comparison, is_selected):
    node = api.node(extra={"u": value})["uuid"]
    assert ([node] if is_selected else []) == selected(api, f"extra.u{comparison}")
