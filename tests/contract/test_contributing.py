"""
The additions of docs/contributing.md in a copy of the tree; test_added_field.py tests the field.
"""

import json
import sqlite3
from contextlib import closing

import pytest

from tests.support.tree_copy import BEFORE, PAGE, additions

VERB, STEP, FIELD, COLUMN, TASK, SETTING = additions()
OPTION = "maintenance_report_interval"
VARIABLE = f"INGOT_CONDUCTOR_{OPTION.upper()}"
#: Print the beat's schedule, then run the task as a conductor's control process does; the second
#: message is one that has accumulated.
PERIODIC = """
import json, sys

from app import runtime
from app.broker import queue, redis_broker
from app.config.settings import load
from app.observe import log
from workers.periodic import control_tasks, schedule

url = "redis://127.0.0.1:1"
settings = load({"INGOT_DATABASE_CONNECTION": f"sqlite:///{sys.argv[1]}", "INGOT_BROKER_URL": url})
log.set_up("info", "json")
application = queue.celery(settings)
made = runtime.make(settings, lambda _: True)
control_tasks.register_tasks(application, made, "copy-1", redis_broker.client(url, 1))
print(json.dumps(dict(schedule.schedule(settings)), default=lambda period: period.seconds))
for _ in range(2):
    application.tasks["ingot.report_maintenance"]()
"""


@pytest.fixture
def node(extended):
    """The path of a manageable node."""
    answer = extended.ask("POST", "/v1/nodes", {"driver": "fake-hardware"}).json()
    path = f"/v1/nodes/{answer['uuid']}"
    provision(extended, path, "manage")
    return path


def provision(extended, path, verb, **arguments):
    """Request a verb; return the node after it."""
    answer = extended.ask("PUT", f"{path}/states/provision", {"target": verb, **arguments})
    assert 202 == answer.status_code, answer.text
    return extended.ask("GET", path).json()


def steps_of(extended, path):
    """The steps of the node's newest operation: (interface, name, state)"""
    uuid = extended.ask("GET", f"{path}/operations").json()["operations"][0]["uuid"]
    steps = extended.ask("GET", f"/v1/operations/{uuid}").json()["steps"]
    return [(step["interface"], step["step"], step["state"]) for step in steps]


def test_an_added_verb_takes_an_active_node_through_its_flow(extended, node):
    assert "active" == provision(extended, node, "adopt")["provision_state"]
    body = {"target": "restart", "dry_run": True}
    rehearsed = extended.ask("PUT", f"{node}/states/provision", body).json()
    assert (True, "restarting") == (rehearsed["accepted"], rehearsed["to"])
    restarted_node = provision(extended, node, "restart")
    assert ("active", None) == (restarted_node["provision_state"], restarted_node["last_error"])
    assert "power on" == restarted_node["power_state"]
    expected = [("power", "power_off", "done"), ("power", "power_on", "done")]
    assert expected == steps_of(extended, node)


def test_an_added_verb_is_refused_below_its_version_and_in_other_states(extended, node):
    path, body = f"{node}/states/provision", {"target": "restart"}
    assert 406 == extended.ask("PUT", path, body, BEFORE).status_code
    refused = extended.ask("PUT", path, body)
    assert 400 == refused.status_code
    assert "restart" in refused.text


def test_an_added_verb_is_in_the_command_line_and_the_docs(extended, node):
    provision(extended, node, "adopt")
    extended.cli("node", "provision-state", node.rpartition("/")[2], "restart")
    assert "power_on" in {name for _, name, _ in steps_of(extended, node)}
    assert "### restarting" in (extended.folder / "docs/states.md").read_text()


def test_the_page_counts_the_files_of_a_verb():
    paths = [name for name, _ in additions()[VERB]]
    assert 6 == len([path for path in paths if not path.startswith("tests/")])
    page = PAGE.read_text()
    assert all(f"| `{path}` |" in page for path in paths)


def test_an_added_column_of_operations_is_written_and_read_by_all_statements(extended, node):
    """With two changed files: the verbs of the other tests claim, record and end operations."""
    assert "active" == provision(extended, node, "adopt")["provision_state"]
    with closing(sqlite3.connect(extended.folder / "ingot.db")) as database:
        channels = database.execute("SELECT DISTINCT channel FROM operations").fetchall()
    assert [("api",)] == channels
    assert ["app/models/operation.py", "migrations/versions/rack_channel.py"] == [
        name for name, _ in additions()[COLUMN]
    ]


def test_an_added_clean_step_is_listed_and_run(extended, node):
    listed = extended.ask("GET", f"{node}/cleaning/steps").json()
    assert ("management", "reset_nmi_count") in [
        (step["interface"], step["step"]) for step in listed
    ]
    steps = [{"interface": "management", "step": "reset_nmi_count"}]
    cleaned_node = provision(extended, node, "clean", clean_steps=steps)
    assert ("manageable", 0) == (
        cleaned_node["provision_state"], cleaned_node["driver_internal_info"]["fake"]["nmis"]
    )  # fmt: skip
    assert [("management", "reset_nmi_count", "done")] == steps_of(extended, node)
    assert "`reset_nmi_count`" in (extended.folder / "docs/drivers-reference.md").read_text()


def test_an_added_task_is_scheduled_and_runs(extended, node):
    assert extended.ask("PUT", f"{node}/maintenance").ok
    process = extended.run("-c", PERIODIC, str(extended.folder / "ingot.db"))
    assert 0 == process.returncode, process.stderr
    entry = json.loads(process.stdout)["ingot.report_maintenance"]
    assert ("ingot.report_maintenance", 3600) == (entry["task"], entry["schedule"])
    events = [json.loads(line) for line in process.stderr.splitlines() if line.startswith("{")]
    (event,) = [log_event for log_event in events if log_event["event"] == "maintenance.reported"]
    assert 1 == event["nodes"]


def test_an_added_setting_is_shown_and_checked(extended):
    process = extended.run("-m", "workers.ingot", "config", "conductor", **{VARIABLE: "60"})
    assert f"# {VARIABLE}, default 3600" in process.stdout
    assert f"{OPTION} = 60" in process.stdout
    refused = extended.run("-m", "workers.ingot", "config", **{VARIABLE: "soon"})
    assert 0 != refused.returncode
    assert VARIABLE in refused.stderr
    assert f"`{OPTION}`" in (extended.folder / "docs/settings.md").read_text()
