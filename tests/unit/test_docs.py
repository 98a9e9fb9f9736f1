"""The documentation: its example works, its links lead somewhere, its generated pages can be told."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from app.config import options
from app.config.settings import Settings
from docs import generate
from drivers.builtin import HARDWARE_TYPES
from drivers.core.errors import BadArgument, InvalidDriverInfo, LeaseLost, Refused, Unreachable
from drivers.core.kinds import POWER_OFF, POWER_ON
from drivers.core.registry import load
from drivers.core.steps import Done, Flow, Wait
from tests.support.web import Handler, serving

ROOT = Path(__file__).parents[2]
#: How variables are made, not two of them.
SHAPES = {"INGOT_GROUP_NAME", "INGOT_NAME"}
FORMERLY = {
    f"[{old.replace('.', ']', 1)}"
    for each in options.options(Settings)
    for old in each.about.deprecated
}
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def blocks(page):
    """file name -> text, of the code blocks that begin with their file's name."""
    text = (ROOT / page).read_text()
    found = re.findall(r"```\w+\n# (\S+)\n(.*?)```", text, re.DOTALL)
    return dict(found)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The guide's driver as pip would install it; its modules by name."""
    files = blocks("docs/drivers.md")
    project = tomllib.loads(files["pyproject.toml"])["project"]
    about = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {where}" for name, where in entries.items()))
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    modules = [name.removesuffix(".py") for name in files if name.endswith(".py")]
    for name in modules:
        (tmp_path / f"{name}.py").write_text(files[f"{name}.py"])
    monkeypatch.syspath_prepend(tmp_path)
    yield {name: __import__(name) for name in modules}
    for name in modules:
        del sys.modules[name]


@pytest.fixture
def strip():
    """A power strip with one outlet; `orders` are the bodies that it was sent."""

    class Strip(Handler):
        def do_GET(self):
            self.tell()

        def do_PUT(self):
            body = self.body()
            self.server.orders.append(body)
            self.server.on = body["on"]
            self.tell()

        def tell(self):
            self.answer(200 if self.path == "/outlets/4" else 404, {"on": self.server.on})

    with serving(Strip, on=True, orders=[]) as server:
        yield server


def test_the_guides_driver_is_found_by_its_entry_point(installed):
    registry = load(HARDWARE_TYPES, enabled_types=["acme"])
    assert {} == registry.refused
    assert "acme-strip" == registry.default("acme", "power")
    (step,) = registry.driver("acme", {}).power.get_steps(None, Flow.CLEAN)
    assert ("drain", False, ["seconds"]) == (
        step.name,
        step.needs_ramdisk,
        [arg.name for arg in step.args],
    )


def test_the_guides_driver_switches_a_machine_and_looks_before_it_orders(installed, strip):
    make = installed["test_ingot_acme"].target
    target = make(strip.url)
    power = target.driver.power
    power.validate(target)
    assert POWER_ON == power.get_power_state(target)
    assert Done() == power.change(target, POWER_ON)
    assert [] == strip.orders
    assert Done() == power.change(target, POWER_OFF)
    assert [{"on": False}] == strip.orders
    assert POWER_OFF == target.reports["power_state"]


def test_the_guides_step_waits_and_may_be_repeated(installed, strip):
    make = installed["test_ingot_acme"].target
    target = make(strip.url)
    waits = Wait({"drained": False}, poll_after=5)
    assert waits == target.driver.power.run(target, "drain", {"seconds": 5})
    assert waits == target.driver.power.run(target, "drain", {"seconds": 5})
    assert [{"on": False}] == strip.orders
    assert Done() == target.driver.power.drain(make(strip.url, progress=waits.progress))


@pytest.mark.parametrize("seconds", ["soon", -1, 1e300, True])
def test_the_guides_step_refuses_an_argument_that_does_not_match_its_schema(
    installed, strip, seconds
):
    target = installed["test_ingot_acme"].target(strip.url)
    with pytest.raises(BadArgument, match=r"power\.drain: seconds must be"):
        target.driver.power.run(target, "drain", {"seconds": seconds})
    assert [] == strip.orders


def test_the_guides_driver_gives_no_order_once_the_node_was_given_away(installed, strip):
    def lost():
        raise LeaseLost

    target = installed["test_ingot_acme"].target(strip.url, before_order=lost)
    with pytest.raises(LeaseLost):
        target.driver.power.drain(target)
    assert [] == strip.orders


def test_the_guides_driver_says_what_is_wrong(installed, strip):
    make = installed["test_ingot_acme"].target
    target = make(strip.url)
    with pytest.raises(InvalidDriverInfo, match="strip_url"):
        target.driver.power.validate(make(""))
    with pytest.raises(Refused, match="404"):
        target.driver.power.get_power_state(make(f"{strip.url}/elsewhere"))
    with pytest.raises(Unreachable):
        target.driver.power.get_power_state(make("http://127.0.0.1:9"))


def headings(page):
    """The anchors of a page, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        to = page.parent / path if path else page
        assert to.exists(), link
        assert not anchor or anchor in headings(to), link


def test_every_setting_that_is_named_exists():
    known = {str(each) for each in options.options(Settings)}
    variables = {each.variable for each in options.options(Settings)} | options.NOT_SETTINGS
    for page in PAGES:
        text = page.read_text()
        assert set(re.findall(r"\[\w+\][a-z_]+", text)) <= known | FORMERLY, page
        assert set(re.findall(r"`(INGOT_[A-Z_]+[A-Z])\b", text)) <= variables | SHAPES, page


def test_every_event_of_the_log_that_is_named_is_logged():
    code = "".join(
        path.read_text()
        for folder in ("app", "workers", "drivers")
        for path in (ROOT / folder).rglob("*.py")
    )
    _, _, rest = (ROOT / "docs/operations.md").read_text().partition("## What the logs say")
    rows = re.findall(r"^\| (`.*?) \|", rest.partition("\n## ")[0], re.MULTILINE)
    events = [event for row in rows for event in re.findall(r"`([a-z_]+\.[a-z_]+)`", row)]
    assert len(events) > 10
    for event in events:
        assert f'"{event}"' in code, event


def test_pages_that_are_missing_or_changed_are_named(tmp_path):
    for name in generate.NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(generate.render(name))
    assert [] == generate.stale(tmp_path)
    (tmp_path / "docs/api.md").unlink()
    (tmp_path / "app/cli/node_fields.py").write_text("old")
    assert ["docs/api.md", "app/cli/node_fields.py"] == generate.stale(tmp_path)


def test_paths_of_the_tree_that_pages_name_exist():
    path = re.compile(r"`((?:app|workers|drivers|tests|docs|migrations)/[\w./-]*)`")
    missing = {
        (page.name, name)
        for page in PAGES
        if page.name != "CHANGELOG.md"
        for name in path.findall(page.read_text())
        if not (ROOT / name).exists()
        and not (ROOT / name).with_suffix(".py").exists()  # a function of a module
    }
    assert set() == missing


def test_a_change_in_the_generated_part_of_a_page_is_noticed_and_the_rest_is_left_alone(
    tmp_path, monkeypatch
):
    page = tmp_path / "docs/protocol.md"
    page.parent.mkdir()
    page.write_text(f"By hand.\n{generate.BEGIN}old\n{generate.END}By hand, too.\n")
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert "docs/protocol.md" in generate.stale(tmp_path)
    page.write_text(generate.render("docs/protocol.md"))
    text = page.read_text()
    assert "docs/protocol.md" not in generate.stale(tmp_path)
    assert text.startswith("By hand.\n")
    assert text.endswith("By hand, too.\n")
    assert "| `waiting` | resume | `queued` |" in text


def test_the_tests_that_the_specs_page_names_exist():
    text = (ROOT / "docs/specs.md").read_text()
    files = dict(re.findall(r"^\| (\w+) \| `([\w/]+\.py)` \|$", text, re.MULTILINE))
    named = re.findall(r"(\w+)::(test_\w+)", text)
    assert 60 < len(named)
    for short, test in named:
        assert f"def {test}(" in (ROOT / "tests" / files[short]).read_text(), f"{short}::{test}"


def test_every_demand_of_the_specs_page_names_its_test():
    _, _, tables = (ROOT / "docs/specs.md").read_text().partition("\n## ")
    rows = [line for line in tables.splitlines() if line.startswith("| ")]
    demands = [row for row in rows if not row.startswith(("| demand |", "| --- |"))]
    assert 100 < len(demands)
    assert [] == [row for row in demands if not re.search(r"\w+::test_\w+[^|]*\|$", row)]


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_who_is_new_reads_how_to_install_the_client_before_the_first_command(page):
    text = (ROOT / page).read_text()
    installed = re.search(r"pip install python-openstackclient python-ironicclient", text)
    assert installed
    assert installed.start() < text.index("openstack baremetal node create")
