"""The document at /openapi.json is complete and correct; test_fuzz.py checks the answers."""

import json
import keyword
import re
from pathlib import Path

import jsonschema_rs  # importing jsonschema takes 2 s
import pytest

from app.api.declarations import versions
from app.api.resource.ports import PORT
from app.api.schemas.nodes import NodeCreate
from app.api.values.value_types import Text
from app.models import Node

OPERATION_IDS = Path(__file__).with_name("operation_ids.txt")
METHODS = {"get", "post", "put", "patch", "delete"}
#: Operations that ignore their query, or pass it to a vendor's function.
NO_MATTER = {"discover", "healthcheck", "show_v1", "return_from_provider"}


@pytest.fixture(scope="module")
def document(applications):
    return applications("sqlite")[1].test_client().get("/openapi.json").json


@pytest.fixture(scope="module")
def operations(document):
    """operationId -> (method, path, operation)"""
    entries = [
        (about["operationId"], (method, path, about))
        for path, methods in document["paths"].items()
        for method, about in methods.items()
    ]
    assert len(entries) == len(dict(entries)) > 140
    return dict(entries)


def resolved(document, node):
    while "$ref" in node:
        at = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            at = at[part.replace("~1", "/")]
        node = at
    return node


def test_every_operation_has_its_version_its_rule_its_answers_and_its_errors(operations):
    for name, (method, _, about) in operations.items():
        statuses = {int(status) for status in about["responses"]}
        assert method in METHODS
        assert about["summary"], name
        assert re.fullmatch(r"1\.\d+", about["x-since"]), name
        assert {status for status in statuses if status < 400}, name
        assert {400, 406, 500, 503} <= statuses, name
        assert (401 in statuses) == (about["security"] != []), name
        assert (403 in statuses) == ("x-policy" in about or 101 in statuses), name
        assert ("requestBody" in about) >= (method == "patch"), name


def test_operation_ids_are_names_of_functions_that_stay(operations):
    assert all(re.fullmatch("[a-z][a-z0-9_]*", name) for name in operations)
    assert not {name for name in operations if keyword.iskeyword(name)}
    released = set(OPERATION_IDS.read_text().split())
    assert not released - operations.keys(), "generated clients call these: keep their names"
    document = OPERATION_IDS.name
    assert not operations.keys() - released, f"add them to {document}: they are a promise"


def test_no_schema_of_an_object_is_there_twice(document):
    places = {}

    def walk(node, place):
        if isinstance(node, dict):
            if node.get("type") == "object" and len(node.get("properties", ())) > 1:
                places.setdefault(json.dumps(node, sort_keys=True), []).append(place)
            for name, inner in node.items():
                walk(inner, f"{place}/{name}")
        elif isinstance(node, list):
            for inner in node:
                walk(inner, place)

    walk(document["paths"], "paths")
    walk(document["components"], "components")
    twice = [paths for paths in places.values() if len(paths) > 1]
    assert not twice, "make it a Component, so that clients have one class for it"


def test_every_schema_is_valid_and_every_reference_resolves(document):
    def walk(node):
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                assert resolved(document, node) is not None
            for inner in node.values():
                walk(inner)
        elif isinstance(node, list):
            for inner in node:
                walk(inner)

    walk(document)
    for schema in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)
    used = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert used == document["components"]["schemas"].keys()


def test_a_resource_documents_the_fields_of_its_declaration(document):
    schemas = document["components"]["schemas"]
    port = schemas["Port"]["properties"]
    assert {*PORT.full, "links"} == port.keys()
    assert {"type": "boolean", "x-since": "1.19"} == port["pxe_enabled"]
    assert {"type": ["string", "null"], "x-since": "1.88"} == port["name"]
    assert {"type": "string", "format": "uuid"} == port["node_uuid"]
    assert "object" == port["extra"]["type"]
    assert "array" == schemas["Allocation"]["properties"]["traits"]["type"]
    assert ["string", "null"] == schemas["Allocation"]["properties"]["node_uuid"]["type"]
    assert "1.83" == schemas["NodeCreate"]["properties"]["parent_node"]["x-since"]


def test_no_text_is_longer_than_its_column():
    columns = Node.__table__.c
    for name, field in NodeCreate().fields.items():
        longest = getattr(columns[name].type, "length", None)
        if type(field) is Text and longest:
            allowed = [
                validator.max for validator in field.validators if getattr(validator, "max", None)
            ]
            assert allowed, name
            assert min(allowed) <= longest, name


def test_errors_have_the_documented_shape(api, document):
    error = {"$ref": "#/components/schemas/Error"} | {"components": document["components"]}
    fault = {"$ref": "#/components/schemas/Fault"} | {"components": document["components"]}
    for path in ("/v1/nodes/missing", "/v1/nowhere"):
        answer = api("GET", path).json
        jsonschema_rs.validate(error, answer)
        inner = json.loads(answer["error_message"])
        jsonschema_rs.validate(fault, inner)


def test_an_undocumented_parameter_is_refused(api, operations):
    for name, (method, path, _) in operations.items():
        if method != "get" or name in NO_MATTER or "vendor_passthru" in path:
            continue
        filled_path = re.sub(r"\{flow\}", "cleaning", path)
        answer = api("GET", re.sub(r"\{\w+\}", "x", filled_path) + "?colour=red")
        assert (400, True) == (answer.status_code, "colour" in answer.text), name


def test_fields_and_sort_keys_are_the_documented_ones(api, operations):
    checked = 0
    for _, path, about in operations.values():
        for parameter in about["parameters"]:
            if "{" in path or parameter.get("name") not in ("fields", "sort_key"):
                continue
            schema = parameter["schema"]
            words = schema.get("items", schema).get("enum", [])
            for word in words:
                answer = api("GET", f"{path}?{parameter['name']}={word}")
                assert 200 == answer.status_code, (path, word)
                checked += 1
    assert checked > 200


def test_every_section_has_a_title_and_an_operation(document, operations):
    titles = [tag["x-displayName"] for tag in document["tags"]]
    assert sorted(set(titles)) == sorted(titles)
    assert not [title for title in titles if "_" in title or title[0].islower()]
    assert {tag["name"] for tag in document["tags"]} == {
        about["tags"][0] for _, _, about in operations.values()
    }


def test_the_page_breaks_words_of_tables_only_in_remarks(api):
    style = re.sub(r"/\*.*?\*/", "", api("GET", "/docs/page.css").text)
    breaking = {
        selector.strip()
        for selectors, rules in re.findall(r"([^{}]+)\{([^{}]*)\}", style)
        for selector in selectors.split(",")
        if re.search(r"(overflow-wrap|word-break|word-wrap)\s*:\s*(anywhere|break)", rules)
    }
    assert {"pre", "td:last-child"} == breaking
    narrowest = re.search(r"td:last-child \{[^}]*min-width: (\d+)rem", style)
    longest = max(len(word) for word in versions.HEADER.split())
    assert int(narrowest[1]) * 16 > longest * 7  # approximate width of a letter of 14px text


def test_code_in_a_text_is_shown_as_code(api, document):
    """The page passes every text that may have backticks to the function that renders them."""
    page = api("GET", "/docs/page.js").text
    assert "`" in document["info"]["description"]
    bare = re.findall(
        r"(?<!prose\()(?<!const )(?:spec\.info\.description|answer\.description|about\.summary"
        r"|each\.description|group\.about|remark\()(?![^,;\n]*toLowerCase)",
        page,
    )
    assert [] == bare


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", 302),
        ("*/*", 200),
        ("application/json", 200),
        ("application/json, text/plain, */*", 200),
        ("", 200),
    ],
)
def test_browsers_are_redirected_to_the_page_and_programs_are_not(api, accept, status):
    answer = api("GET", "/", Accept=accept)
    assert status == answer.status_code
    if status == 302:
        assert "http://localhost/ui" == answer.headers["Location"]
        assert "text/html" in api("GET", "/ui", Accept=accept).content_type
    else:
        assert "OpenStack Ironic API" == answer.json["name"]


@pytest.mark.parametrize("path", ["/metrics", "/v1/metrics", "/nodes/n1/maintenance/x"])
def test_an_unknown_path_is_reported_as_requested(api, path):
    answer = api("GET", path)
    assert 404 == answer.status_code
    description = json.loads(answer.json["error_message"])["description"]
    assert description.startswith(f"GET {path} is not something")
