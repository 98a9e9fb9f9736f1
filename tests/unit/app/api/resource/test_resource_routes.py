"""Routes that are declared alike for all resources."""

from dataclasses import replace

import pytest
from sqlalchemy import true

from app.api.openapi.returns import NO_CONTENT
from app.api.request.routes import Routes
from app.api.resource.chassis import CHASSIS
from app.api.resource.resource_routes import ResourceRoutes
from app.api.resource.resources import Parent
from app.api.schemas.chassis import ChassisChange, ChassisCreate
from app.api.values.value_types import ListQuery

SHELF = Parent("/shelves/<ident>", "shelf", "shelf", lambda _ident: true(), since=9)


@pytest.fixture
def things():
    return Routes("things", "Things", since=5)


@pytest.fixture
def declare(things):
    resource = replace(CHASSIS, path="things", names_since=7)
    return ResourceRoutes(
        resource, things, "thing", "things", "baremetal:thing", gone=405, label="odd thing"
    )


def facts(routes):
    return [
        (
            route.method,
            route.path,
            route.handler,
            route.summary,
            route.since,
            route.gone,
            route.rule,
        )
        for route in routes.declared
    ]


def test_routes_create_show_change_and_delete_an_item(things, declare):
    declare.creates(ChassisCreate, lambda _session, _fields: None)
    declare.shows()
    declare.changes(ChassisChange(), lambda _session, _row, _values: None, since=6)
    declare.deletes(lambda _session, _row: None)
    one, item = "/v1/things", "/v1/things/<ident>"
    assert facts(things) == [
        ("POST", one, "create_thing", "Create an odd thing", 5, 405, "baremetal:thing:create"),
        ("GET", item, "show_thing", "Show an odd thing", 5, 404, "baremetal:thing:get"),
        (
            "PATCH", item, "change_thing", "Change an odd thing by a JSON patch", 6, 405,
            "baremetal:thing:update",
        ),
        ("DELETE", item, "delete_thing", "Delete an odd thing", 5, 405, "baremetal:thing:delete"),
    ]  # fmt: skip
    created, detail, changed, deleted = (route.returns for route in things.declared)
    assert declare.resource.component is created.bodies[201]
    assert (*CHASSIS.full, "links") == detail.fields
    assert declare.resource.component is changed.bodies[200]
    assert NO_CONTENT is deleted


def test_a_list_has_routes_with_details_and_below_each_parent(things, declare):
    declare.lists(ListQuery, details=True)
    declare.lists(ListQuery, parent=SHELF, rule="get")
    rule = "baremetal:thing:list"
    details = "List odd things with all their fields"
    assert facts(things) == [
        ("GET", "/v1/things", "list_things", "List odd things", 5, 404, rule),
        ("GET", "/v1/things/detail", "list_thing_details", details, 5, 404, rule),
        (
            "GET", "/v1/shelves/<ident>/things", "list_things_of_shelf",
            "List the odd things of a shelf", 9, 404, "baremetal:thing:get",
        ),
    ]  # fmt: skip
    assert [declare.resource.items] * 3 == [route.returns for route in things.declared]


def test_a_path_takes_a_uuid_where_the_resource_has_no_names(things, declare):
    replace(declare, resource=replace(declare.resource, names_since=None)).shows()
    assert "/v1/things/<uuid>" == things.declared[0].path
