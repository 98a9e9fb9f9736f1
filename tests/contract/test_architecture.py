"""The walks in docs/architecture.md are the paths that requests take."""

import re
import sys
import threading
from pathlib import Path

import pytest

from app.broker import queue
from app.broker.chain import RUN
from app.config import settings
from tests.support.inside import AlwaysGiven, AlwaysNotes, NoWaker
from workers.conductor import attempts
from workers.conductor.abilities import StepThreads
from workers.conductor.conductor import Conductor

ROOT = Path(__file__).parents[2]
WALK = "## A manual clean, from the request to the driver"
WALKS = (
    WALK,
    "## A heartbeat, from the agent to the next step",
    "## A power sync, from the schedule to the correction",
    "## A change event, from the commit to the webhook",
)
#: Most files of the walk, and most functions.
FILES, FUNCTIONS = 7, 11
CLEAN = {"target": "clean", "clean_steps": [{"interface": "bios", "step": "factory_reset"}]}


def table(heading):
    """file -> its functions, of the table of a walk, in its order."""
    section = (ROOT / "docs/architecture.md").read_text().split(heading)[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\S+\.py)` \| (.*) \|$", section, re.MULTILINE)
    return {file: re.findall(r"`([a-z_]+)`", re.sub(r"\([^)]*\)", "", text)) for file, text in rows}


@pytest.fixture(scope="module")
def walk():
    return table(WALK)


@pytest.fixture
def service(api):
    """The API and the task of a conductor, in one process; its broker is away."""
    url = {"INGOT_BROKER_URL": "redis://127.0.0.1:1"}
    application = queue.celery(settings.load(url))
    send = queue.sender(application)
    collect = api.runtime.send
    api.runtime.send = lambda message: send(message) or collect(message)
    registered = threading.Event()
    registered.set()
    conductor = Conductor("rack-1", "1", api.runtime, AlwaysGiven(), AlwaysNotes(), NoWaker())
    attempts.register_task(application, conductor, registered, StepThreads(1, 600))
    yield api, application.tasks[RUN]
    application.close()


def test_the_walk_of_a_manual_clean_names_the_functions_in_the_order_of_their_calls(service, walk):
    api, task = service
    path = f"/v1/nodes/{api.node(provision_state='manageable')['uuid']}/states/provision"
    functions = [(file, name) for file, names in walk.items() for name in names]
    calls = []

    def note(frame, event, _argument):
        call = frame.f_code.co_filename.removeprefix(f"{ROOT}/"), frame.f_code.co_name
        if event == "call" and call in functions:
            calls.append(call)

    sys.setprofile(note)
    try:
        answer = api("PUT", path, CLEAN, **{"Idempotency-Key": "one"})
        while api.messages and ("drivers/core/interface.py", "execute_clean_step") not in calls:
            message = api.messages.pop(0)
            arguments = message.node, message.operation, message.fence, message.cursor
            assert "done" == task.apply(arguments).get()
    finally:
        sys.setprofile(None)
    assert 202 == answer.status_code
    assert set(functions) == set(calls)
    remaining_calls = iter(calls)
    assert all(function in remaining_calls for function in functions), (
        "each after the one before it"
    )


def test_the_walk_of_a_manual_clean_is_short(walk):
    assert 2 < len(walk) <= FILES
    assert 2 < sum(map(len, walk.values())) <= FUNCTIONS


@pytest.mark.parametrize("heading", WALKS)
def test_the_files_of_a_walk_have_its_functions_and_are_ten_at_most(heading):
    functions = table(heading)
    assert 2 < len(functions) <= 10
    missing = [
        f"{file}: {name}"
        for file, names in functions.items()
        for name in names
        if f"def {name}(" not in (ROOT / file).read_text()
    ]
    assert [] == missing
