"""The OpenAPI document is generated from the declarations of routes and resources."""

import pytest

from app.api.fleet.conductors import CHOOSABLE, COMPUTED, CONDUCTOR
from app.api.openapi.returns import NO_CONTENT, Returns
from app.api.openapi.shapes import LINKS, TEXT, UUID, Component, array, exactly, or_null, versioned
from app.api.request.routes import Routes
from app.api.web.document import components


def view():
    """Do something"""


def test_a_route_without_a_declared_answer_is_refused():
    with pytest.raises(TypeError, match="returns"):
        Routes("things", "Things").declare("GET", "/things")


def test_a_route_documents_the_answers_declared_at_its_handler():
    things = Routes("things", "Things")
    things.declare("GET", "/things", returns=array(UUID))(view)
    things.declare("DELETE", "/things", returns=NO_CONTENT, name="forget", summary="Forget")(view)
    route, deletion = things.declared
    assert Returns({200: array(UUID)}) == route.returns
    assert ("view", "Do something") == (route.handler, route.summary)
    assert NO_CONTENT is deletion.returns
    assert ("forget", "Forget") == (deletion.handler, deletion.summary)


def test_the_document_has_each_referenced_schema_and_no_other():
    inner = Component("Inner", exactly({"uuid": UUID}))
    outer = Component("Outer", exactly({"inner": or_null(inner), "links": LINKS}))
    schemas = components({"responses": [{"200": outer}, {"200": array(outer)}]})
    assert ["Inner", "Link", "Links", "Outer"] == list(schemas)
    assert {"$ref": "#/components/schemas/Inner"} == inner
    assert inner.schema is schemas["Inner"]


def test_a_schema_is_found_through_a_property_of_a_later_version():
    schema = versioned("node", exactly({"name": Component("Name", TEXT)}))
    assert "1.5" == schema["properties"]["name"]["x-since"]
    assert {"Name": TEXT} == components(schema)


def test_two_different_schemas_of_one_name_are_refused():
    with pytest.raises(TypeError, match="Thing"):
        components([Component("Thing", TEXT), Component("Thing", UUID)])


def test_the_schema_of_a_conductor_has_the_same_field_order_in_every_process():
    stored = [name for name in CHOOSABLE if name not in COMPUTED]
    assert [*stored, "alive", "drivers", "links"] == list(CONDUCTOR.schema["properties"])
