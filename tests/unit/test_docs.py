"""The documentation: its example runs, its links resolve, its generated pages are current."""

import re
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from app.config import loading, options
from app.config.removed_options import REMOVED
from app.config.settings import Settings
from app.hardware.steps import IN_BAND_DEPLOY
from app.planning import plan_rows
from docs import generate, vendor_features
from drivers.agent.deploy import Direct
from drivers.builtin import HARDWARE_TYPES
from drivers.core.errors import BadArgument, InvalidDriverInfo, LeaseLost, Refused, Unreachable
from drivers.core.interface_kinds import POWER_OFF, POWER_ON
from drivers.core.registry import load
from drivers.core.steps import Done, Flow, Wait
from tests.support import specs_page
from tests.support.web import Handler, serving

ROOT = Path(__file__).parents[2]
#: Patterns of variable names, not names.
SHAPES = {"INGOT_GROUP_NAME", "INGOT_NAME", "INGOT_GROUP_NAME_FILE"}
FORMERLY = {
    f"[{old.replace('.', ']', 1)}"
    for option in options.options(Settings)
    for old in option.about.deprecated
}
REMOVED_OPTIONS = {f"[{place.replace('.', ']', 1)}" for place in REMOVED}
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def blocks(page):
    """file name -> text, of the code blocks whose first line is a file name."""
    text = (ROOT / page).read_text()
    matches = re.findall(r"```\w+\n# (\S+)\n(.*?)```", text, re.DOTALL)
    return dict(matches)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install the guide's driver as pip does; return its modules by name."""
    files = blocks("docs/drivers.md")
    project = tomllib.loads(files["pyproject.toml"])["project"]
    about = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()))
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
    """A power strip with one outlet; `orders`: received bodies."""

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


def test_the_guides_driver_powers_a_machine_and_reads_before_it_acts(installed, strip):
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


def test_the_guides_driver_sends_nothing_without_the_lease(installed, strip):
    def lost():
        raise LeaseLost

    target = installed["test_ingot_acme"].target(strip.url, before_order=lost)
    with pytest.raises(LeaseLost):
        target.driver.power.drain(target)
    assert [] == strip.orders


def test_the_guides_driver_names_wrong_fields(installed, strip):
    make = installed["test_ingot_acme"].target
    target = make(strip.url)
    with pytest.raises(InvalidDriverInfo, match="strip_url"):
        target.driver.power.validate(make(""))
    with pytest.raises(Refused, match="404"):
        target.driver.power.get_power_state(make(f"{strip.url}/elsewhere"))
    with pytest.raises(Unreachable):
        target.driver.power.get_power_state(make("http://127.0.0.1:9"))


def headings(page):
    """Anchors of a page, as GitHub generates them."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        to = page.parent / path if path else page
        assert to.exists(), link
        assert not anchor or anchor in headings(to), link


def test_every_setting_that_is_named_exists():
    option_names = {str(option) for option in options.options(Settings)}
    variables = {option.variable for option in options.options(Settings)} | loading.NOT_SETTINGS
    variables |= {
        option.file_variable for option in options.options(Settings) if option.about.secret
    }
    for page in PAGES:
        text = page.read_text()
        past = REMOVED_OPTIONS if page.name in ("settings.md", "CHANGELOG.md") else set()
        assert set(re.findall(r"\[\w+\][a-z0-9_]+", text)) <= option_names | past | FORMERLY, page
        assert set(re.findall(r"`(INGOT_[A-Z_]+[A-Z])\b", text)) <= variables | SHAPES, page


def section(page, heading):
    """The text of a page under a heading, in one line."""
    _, _, text = (ROOT / page).read_text().partition(f"## {heading}\n")
    return " ".join(text.partition("\n## ")[0].split())


def test_the_page_of_cleaning_names_each_setting_that_decides_what_is_cleaned():
    page, groups = (ROOT / "docs/cleaning.md").read_text(), ("api", "conductor", "deploy")
    names = {option.name for option in options.options(Settings) if option.group in groups}
    decides = re.compile(r"automated_clean|clean_step|erase|shred|(create|delete)_configuration")
    concerned = {name for name in names if decides.search(name)}
    assert 15 < len(concerned)
    assert set() == {
        name for name in concerned if f"{name}`" not in page and f"{name} =" not in page
    }


def test_the_page_of_cleaning_has_the_order_of_interfaces_at_equal_priority():
    text = (ROOT / "docs/cleaning.md").read_text().lower()
    order = sorted(plan_rows.INTERFACE_PRIORITY, key=plan_rows.INTERFACE_PRIORITY.get, reverse=True)
    assert re.search(r"among equals [^.]*" + r"\b[^.]*\b".join(order), text)


def test_the_page_of_cleaning_has_the_ways_out_of_a_failure():
    wrong = section("docs/cleaning.md", "When something goes wrong")
    for words in (
        "maintenance",
        "`last_error`",
        "not switched off",
        "`[conductor]poweroff_in_cleanfail`",
        "`provide`",
        "`manage`",
    ):
        assert words in wrong, words


def test_the_page_of_cleaning_has_the_limits_of_its_security_its_costs_and_the_view_of_nova():
    text = " ".join((ROOT / "docs/cleaning.md").read_text().split())
    security = ("does not remove malware", "hidden in firmware", "untrusted tenants")
    costs = ("may take hours", "keep all free machines in cleaning", "| quotas of the service",
             "`[conductor]max_concurrent_clean` | bounds",
             '"baremetal:node:set_provision_state:clean_steps": "rule:system_admin"')  # fmt: skip
    nova = ("Nova regards an instance as deleted", "its quota is free, when cleaning begins",
            "no error of the user")  # fmt: skip
    for words in (*security, *costs, *nova):
        assert words in text, words


def test_the_page_of_cleaning_tells_what_retiring_forbids_and_allows():
    text = section("docs/cleaning.md", "Retiring")
    for words in ("--retired ", "--retired-reason", "unset", "`manageable`", "409", "`provide`",
                  "`active`", "`adopt`", "`rebuild`", "power sync"):  # fmt: skip
        assert words in text, words


def test_the_page_of_deploying_has_the_flow_and_the_priorities_of_users_steps():
    flow = section("docs/deploying.md", "The flow")
    core = sorted(
        (step.priorities[Flow.DEPLOY] for step in Direct.steps.values() if in_deployments(step)),
        reverse=True,
    )
    for step in filter(in_deployments, Direct.steps.values()):
        assert f"| {step.priorities[Flow.DEPLOY]:g} | `deploy.{step.name}` |" in flow, step.name
    text = section("docs/deploying.md", "Priorities of your steps")
    assert "| above 100 |" in text
    lowest, highest = IN_BAND_DEPLOY
    for above, below in pairwise(core):
        (by_agent,) = re.findall(rf"\| {above - 1} to {below + 1} \| [^|]+ \| (yes|no)\b", text)
        assert (by_agent == "yes") == (lowest <= below + 1 and above - 1 <= highest), above
    assert f"a priority from {lowest} to {highest}" in text


def in_deployments(step):
    """Whether a step runs without a request."""
    return step.priorities.get(Flow.DEPLOY, 0) > 0


def test_every_event_of_the_log_that_is_named_is_logged():
    code = "".join(
        path.read_text()
        for folder in ("app", "workers", "drivers")
        for path in (ROOT / folder).rglob("*.py")
    )
    _, _, text = (ROOT / "docs/operations.md").read_text().partition("## What the logs say")
    rows = re.findall(r"^\| (`.*?) \|", text.partition("\n## ")[0], re.MULTILINE)
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
    (tmp_path / "app/cli/node_commands/node_fields.py").write_text("old")
    assert ["docs/api.md", "app/cli/node_commands/node_fields.py"] == generate.stale(tmp_path)


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


#: "`NAME` and `NAME` in `PATH`"
NAMED_IN_FILE = re.compile(
    r"((?:`\w+`(?:,| and|, and)?\s)+)(?:in|of)\s`(\w+/[\w/]+\.(?:py|js|toml))`"
)


def test_names_stand_in_the_files_that_pages_say():
    places = [
        (page.name, name, path)
        for page in PAGES
        for names, path in NAMED_IN_FILE.findall(page.read_text())
        for name in re.findall(r"`(\w+)`", names)
    ]
    assert len(places) > 20
    wrong_places = [
        place
        for place in places
        if not re.search(rf"\b{place[1]}\b", (ROOT / place[2]).read_text())
    ]
    assert [] == wrong_places


def test_a_change_in_the_generated_part_of_a_page_is_noticed_and_the_rest_is_left_alone(
    tmp_path, monkeypatch
):
    page = tmp_path / "docs/protocol.md"
    page.parent.mkdir()
    page.write_text(f"By hand.\n{generate.BEGIN}old\n{generate.END}By hand, too.\n")
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "NAMES", ["docs/protocol.md"])
    assert "docs/protocol.md" in generate.stale(tmp_path)
    page.write_text(generate.render("docs/protocol.md"))
    text = page.read_text()
    assert "docs/protocol.md" not in generate.stale(tmp_path)
    assert text.startswith("By hand.\n")
    assert text.endswith("By hand, too.\n")
    assert "| `waiting` | resume | `queued` |" in text


def test_the_tests_that_the_specs_page_names_exist():
    files = specs_page.files()
    test_names = [test.split("::") for demand in specs_page.demands() for test in demand.tests]
    assert 60 < len(test_names)
    for short, test in test_names:
        assert f"def {test}(" in (ROOT / files[short]).read_text(), f"{short}::{test}"


def test_every_demand_of_the_specs_page_names_its_test():
    demands = specs_page.demands()
    assert 100 < len(demands)
    assert [] == [demand for demand in demands if not demand.tests]


#: (page, heading) -> facts that a spec demands of the section, as its sentences have them.
FACTS = {
    ("docs/cleaning.md", "Retiring"): (
        '`ingot node set NODE --retired --retired-reason "', "in any state but `available`",
        "never becomes available", "after undeploy and cleaning, it is `manageable`",
        "refused with 409: `provide`; `active`", "and `adopt`", "`rebuild`",
        "The power sync skips retired nodes", "`ingot node list --retired`",
        "`ingot node unset NODE --retired`",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("page", "heading"), FACTS)
def test_a_page_has_the_facts_that_a_spec_demands(page, heading):
    text = (ROOT / page).read_text()
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    words = " ".join(section.split())
    assert [] == [fact for fact in FACTS[page, heading] if fact not in words]


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_installation_of_the_client_comes_before_its_first_command(page):
    text = (ROOT / page).read_text()
    installed = re.search(r"pip install python-openstackclient python-ironicclient", text)
    assert installed
    assert installed.start() < text.index("openstack baremetal node create")


MARKED = """
@pytest.mark.vendor("Dell", "power")
@pytest.mark.vendor({vendor!r}, {feature!r})
@pytest.mark.parametrize("x", [1])
def test_one(x):
    pass


def test_without_a_mark():
    pass
"""


def test_features_of_vendors_are_those_of_marked_tests(tmp_path):
    (tmp_path / "test_a.py").write_text(MARKED.format(vendor="HPE", feature="firmware"))
    assert [("Dell", "power", "test_one", "test_a.py"), ("HPE", "firmware", "test_one", "test_a.py")] == [
        tuple(proof) for proof in vendor_features.proofs(tmp_path)
    ]  # fmt: skip
    for vendor, feature in (("Hpe", "firmware"), ("HPE", "coffee")):
        (tmp_path / "test_a.py").write_text(MARKED.format(vendor=vendor, feature=feature))
        with pytest.raises(vendor_features.UnknownMark, match="test_one"):
            vendor_features.proofs(tmp_path)


def test_a_feature_without_a_test_is_not_in_the_table(monkeypatch):
    proofs = [proof for proof in vendor_features.proofs() if proof.vendor != "Cisco"]
    monkeypatch.setattr(vendor_features, "proofs", lambda: proofs)
    row = next(line for line in vendor_features.features() if line.startswith("| Cisco"))
    assert "yes" not in row
