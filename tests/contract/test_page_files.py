"""Files of the page at /ui: types, entity tags, restrictions, and the facts that they show."""

import re

import pytest

from app.api.declarations import node_fields
from app.lifecycle.provision_states import MACHINE, VERBS
from app.server.application import PAGES

FILES = [path for path in PAGES if path.startswith("/ui/")]
KINDS = {
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "json": "application/json",
    "txt": "text/plain",
}
#: Files of others; `tests/e2e/test_consoles.py` has them under the policy of the page.
VENDORED = {"/ui/xterm.js"}


def test_each_file_has_its_type_and_no_credentials_are_needed(api):
    assert "text/html; charset=utf-8" == api("GET", "/ui").content_type
    assert {"main.js", "fleet.js", "node.js", "style.css", "facts.json"} <= {
        path.rpartition("/")[2] for path in FILES
    }
    for path in FILES:
        answer = api.at(None)("GET", path)
        assert 200 == answer.status_code, path
        assert KINDS[path.rpartition(".")[2]] == answer.mimetype, path


def test_an_unchanged_file_is_not_sent_again(api):
    first = api("GET", "/ui/main.js")
    again = api("GET", "/ui/main.js", **{"If-None-Match": first.headers["ETag"]})
    assert (304, b"") == (again.status_code, again.data)
    assert 200 == api("GET", "/ui/main.js", **{"If-None-Match": '"other"'}).status_code
    assert "no-cache" == first.headers["Cache-Control"]


def test_an_address_with_a_slash_at_its_end_leads_to_the_page(api):
    answer = api("GET", "/ui/")
    assert (308, "../ui") == (answer.status_code, answer.headers["Location"])


@pytest.mark.parametrize("path", ["/ui/nonesuch.js", "/ui/../main.py", "/ui/__init__.py"])
def test_nothing_else_is_served(api, path):
    assert 404 == api("GET", path).status_code


def test_the_page_has_no_inline_code_and_makes_no_element_from_a_string(api):
    page = api("GET", "/ui").text
    assert not re.search(r"<style|<script(?![^>]* src=)|\son\w+=|\sstyle=|javascript:", page)
    for path in FILES:
        if path.endswith(".js") and path not in VENDORED:
            script = api("GET", path).text
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script
            )
            assert not re.search(r"https?://(?!www\.w3\.org)", script), path


def test_each_file_that_is_named_exists(api):
    named = re.findall(r'(?:src|href)="(ui/[^"]+)"', api("GET", "/ui").text)
    for path in FILES:
        if path.endswith(".js"):
            named += [
                f"ui/{name}" for name in re.findall(r' from "\./([^"]+)"', api("GET", path).text)
            ]
    assert len(named) > 20
    assert {f"/{name}" for name in named} <= {*FILES}


def test_the_facts_are_those_of_the_tables(api):
    facts = api("GET", "/ui/facts.json").json
    assert list(MACHINE) == list(facts["states"])
    assert {"kind": "stable", "moves": {"manage": "verifying"}} == facts["states"]["enroll"]
    assert VERBS.keys() == facts["verbs"].keys()
    assert "clean_steps" == facts["verbs"]["clean"]["requires"]
    assert {"deploy_steps"} == set(facts["verbs"]["active"]["takes"])
    assert {*node_fields.FILTERS, "associated", "conductor"} <= facts["filters"].keys()
    assert not {"limit", "marker", "fields", "sort_key"} & facts["filters"].keys()
    assert ["true", "false"] == facts["filters"]["maintenance"]["values"]
    for name, each in facts["filters"].items():
        for value in each["values"] or []:
            assert 200 == api("GET", f"/v1/nodes?{name}={value}").status_code, (name, value)
