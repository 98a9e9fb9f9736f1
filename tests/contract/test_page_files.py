"""Files of the page at /ui: types, entity tags, restrictions, and the facts that they show."""

import gzip
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest

from app import ui
from app.api.declarations import node_fields
from app.lifecycle.provision_states import MACHINE, VERBS
from app.lifecycle.verb_arguments import Content
from app.server.application import PAGES

FILES = [path for path in PAGES if path.startswith("/ui/")]
KINDS = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "json": "application/json",
    "txt": "text/plain",
}
#: Files of others; tests/e2e/test_consoles.py and test_screens.py have them under the policy of the
#: page.
VENDORED = ("xterm.js", "novnc.js")
#: Name of a module of the page -> its text.
MODULES = {
    path.name: path.read_text()
    for path in Path(ui.__file__).parent.glob("*.js")
    if path.name not in VENDORED
}


def test_each_file_has_its_type_and_no_credentials_are_needed(api):
    assert "text/html; charset=utf-8" == api("GET", "/ui").content_type
    assert {"main.js", "xterm.js", "style.css", "facts.json"} <= {
        path.rpartition("/")[2] for path in FILES
    }
    assert "/ui/fleet.js" not in FILES, "it is part of main.js"
    for path in FILES:
        answer = api.at(None)("GET", path)
        assert 200 == answer.status_code, path
        assert KINDS[path.rpartition(".")[2]] == answer.mimetype, path


def test_an_unchanged_file_is_not_sent_again(api):
    first_answer = api("GET", "/ui/main.js")
    second_answer = api("GET", "/ui/main.js", **{"If-None-Match": first_answer.headers["ETag"]})
    assert (304, b"") == (second_answer.status_code, second_answer.data)
    assert 200 == api("GET", "/ui/main.js", **{"If-None-Match": '"other"'}).status_code
    assert "no-cache" == first_answer.headers["Cache-Control"]


def test_the_script_is_kept_as_long_as_the_page_names_its_digest(api):
    address = re.search(r'src="(ui/main\.js\?v=\w+)"', api("GET", "/ui").text)[1]
    answer = api("GET", f"/{address}")
    assert "public, max-age=31536000, immutable" == answer.headers["Cache-Control"]
    assert answer.data == api("GET", "/ui/main.js").data
    other_release = api("GET", "/ui/main.js?v=0123456789abcdef")
    assert "no-cache" == other_release.headers["Cache-Control"]


@pytest.mark.parametrize(
    "path", ["/ui/main.js", "/ui/style.css", "/ui/facts.json", "/docs/page.js"]
)
def test_a_file_is_compressed_for_browsers_that_take_it(api, path):
    plain = api("GET", path)
    packed = api("GET", path, **{"Accept-Encoding": "br, gzip"})
    assert ("gzip", None) == (
        packed.headers["Content-Encoding"], plain.headers.get("Content-Encoding"),
    )  # fmt: skip
    assert "Accept-Encoding" == packed.headers["Vary"] == plain.headers["Vary"]
    assert plain.data == gzip.decompress(packed.data)
    assert plain.headers["ETag"] != packed.headers["ETag"]
    again = {"Accept-Encoding": "gzip", "If-None-Match": packed.headers["ETag"]}
    assert 304 == api("GET", path, **again).status_code


def test_an_address_with_a_slash_at_its_end_leads_to_the_page(api):
    answer = api("GET", "/ui/")
    assert (308, "../ui") == (answer.status_code, answer.headers["Location"])


@pytest.mark.parametrize("path", ["/ui/nonesuch.js", "/ui/../main.py", "/ui/__init__.py"])
def test_nothing_else_is_served(api, path):
    assert 404 == api("GET", path).status_code


def test_the_page_has_no_inline_code_and_makes_no_element_from_a_string(api):
    for path in ("/ui", "/ui/vnc.html"):
        page = api("GET", path).text
        assert not re.search(r"<style|<script(?![^>]* src=)|\son\w+=|\sstyle=|javascript:", page)
    for name, script in MODULES.items():
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script
        ), name
        assert not re.search(r"https?://(?!www\.w3\.org)", script), name


def test_each_file_that_is_named_exists(api):
    paths = re.findall(r'(?:src|href)="(ui/[^"?]+)', api("GET", "/ui").text)
    for script in MODULES.values():
        paths += re.findall(r'"(ui/[\w.]+)"', script)
        paths += [f"ui/{name}" for name in re.findall(r'import\("\./([^"]+)"\)', script)]
    assert {"ui/main.js", "ui/style.css", "ui/xterm.js", "ui/xterm.css"} <= {*paths}
    assert {f"/{name}" for name in paths} <= {*FILES}


def test_the_page_has_a_field_for_each_content_of_an_argument():
    script = MODULES["verb_arguments.js"]
    table = script.partition("const makers = {\n")[2].partition("\n  };")[0]
    entries = [line for line in table.splitlines() if re.match(r" {4}\S", line)]
    names = {name for line in entries for name in re.findall(r'([a-z][a-z ]*)"?: ', line)}
    assert {*map(str, Content)} == names


def test_the_facts_are_those_of_the_tables(api):
    facts = api("GET", "/ui/facts.json").json
    assert list(MACHINE) == list(facts["states"])
    assert {"kind": "stable", "moves": {"manage": "verifying"}} == facts["states"]["enroll"]
    assert VERBS.keys() == facts["verbs"].keys()
    assert ["clean_steps", "runbook"] == facts["verbs"]["clean"]["requires"]
    assert {"deploy_steps", "configdrive"} == set(facts["verbs"]["active"]["takes"])
    assert {*node_fields.FILTERS, "associated", "conductor"} <= facts["filters"].keys()
    assert not {"limit", "marker", "fields", "sort_key"} & facts["filters"].keys()
    assert ["true", "false"] == facts["filters"]["maintenance"]["values"]
    query = urlencode({"where": facts["failed"]})
    assert 200 == api("GET", f"/v1/provision_states?{query}").status_code
    for name, description in facts["filters"].items():
        for value in description["values"] or []:
            assert 200 == api("GET", f"/v1/nodes?{name}={value}").status_code, (name, value)
