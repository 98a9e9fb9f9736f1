"""The document at /openapi.json is whole, and says what is so; test_fuzz.py has the rest."""

import json
import re

import jsonschema
import pytest

from app.api import versions
from app.api.ports import PORT
from app.api.schemas.common import Text
from app.api.schemas.nodes import NodeCreate
from app.models import Node

METHODS = {"get", "post", "put", "patch", "delete"}
#: What does not look at its query, or hands it to a vendor's function.
NO_MATTER = {"discover", "healthcheck", "show_v1"}


@pytest.fixture(scope="module")
def document(applications):
    return applications("sqlite")[1].test_client().get("/openapi.json").json


@pytest.fixture(scope="module")
def operations(document):
    """operationId -> (method, path, operation)"""
    found = [
        (about["operationId"], (method, path, about))
        for path, methods in document["paths"].items()
        for method, about in methods.items()
    ]
    assert len(found) == len(dict(found)) > 140
    return dict(found)


def resolved(document, node):
    while "$ref" in node:
        at = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            at = at[part.replace("~1", "/")]
        node = at
    return node


def test_every_operation_tells_its_version_its_rule_what_it_answers_and_how_it_fails(operations):
    for name, (method, _, about) in operations.items():
        statuses = {int(status) for status in about["responses"]}
        assert method in METHODS
        assert about["summary"], name
        assert re.fullmatch(r"1\.\d+", about["x-since"]), name
        assert {status for status in statuses if status < 300}, name
        assert {400, 406, 500, 503} <= statuses, name
        assert (401 in statuses) == (about["security"] != []), name
        assert (403 in statuses) == ("x-policy" in about), name
        assert ("requestBody" in about) >= (method == "patch"), name


def test_every_schema_is_one_and_every_reference_leads_somewhere(document):
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
        jsonschema.Draft202012Validator.check_schema(schema)
    used = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert used == document["components"]["schemas"].keys()


def test_a_resource_shows_what_its_declaration_has(document):
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
            allowed = [each.max for each in field.validators if getattr(each, "max", None)]
            assert allowed, name
            assert min(allowed) <= longest, name


def test_errors_have_the_documented_shape(api, document):
    error = {"$ref": "#/components/schemas/Error"} | {"components": document["components"]}
    fault = {"$ref": "#/components/schemas/Fault"} | {"components": document["components"]}
    for path in ("/v1/nodes/missing", "/v1/nowhere"):
        answer = api("GET", path).json
        jsonschema.validate(answer, error)
        inner = json.loads(answer["error_message"])
        jsonschema.validate(inner, fault)


def test_a_parameter_that_is_not_documented_is_refused(api, operations):
    for name, (method, path, _) in operations.items():
        if method != "get" or name in NO_MATTER or "vendor_passthru" in path:
            continue
        named = re.sub(r"\{flow\}", "cleaning", path)
        answer = api("GET", re.sub(r"\{\w+\}", "x", named) + "?colour=red")
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


def test_the_page_breaks_no_word_of_a_table_but_in_the_remarks(api):
    page = api("GET", "/docs").text
    style = re.sub(r"/\*.*?\*/", "", re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1])
    breaking = {
        selector.strip()
        for selectors, rules in re.findall(r"([^{}]+)\{([^{}]*)\}", style)
        for selector in selectors.split(",")
        if re.search(r"(overflow-wrap|word-break|word-wrap)\s*:\s*(anywhere|break)", rules)
    }
    assert {"pre", "td:last-child"} == breaking
    narrowest = re.search(r"td:last-child \{[^}]*min-width: (\d+)rem", style)
    longest = max(len(word) for word in versions.HEADER.split())
    assert int(narrowest[1]) * 16 > longest * 7  # a letter of 14px text is about so wide


def test_what_is_code_in_a_text_is_shown_as_code(api, document):
    """Every text of the document that may have backticks passes the function that knows them."""
    page = api("GET", "/docs").text
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
def test_a_browser_is_sent_to_the_page_and_programs_are_not(api, accept, status):
    answer = api("GET", "/", Accept=accept)
    assert status == answer.status_code
    if status == 302:
        assert "http://localhost/docs" == answer.headers["Location"]
        assert "text/html" in api("GET", "/docs", Accept=accept).content_type
    else:
        assert "OpenStack Ironic API" == answer.json["name"]


@pytest.mark.parametrize("path", ["/metrics", "/v1/metrics", "/nodes/n1/maintenance/x"])
def test_a_path_that_is_not_there_is_told_as_it_was_asked_for(api, path):
    answer = api("GET", path)
    assert 404 == answer.status_code
    told = json.loads(answer.json["error_message"])["description"]
    assert told.startswith(f"GET {path} is not something")
