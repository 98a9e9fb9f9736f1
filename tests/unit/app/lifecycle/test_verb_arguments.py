import inspect

import pytest

from app.api.declarations import versions
from app.api.schemas.nodes import ProvisionTarget
from app.api.schemas.rollouts import RolloutCreate
from app.cli.node_commands import verbs as commands
from app.engine.verbs import DECLARATIONS
from app.lifecycle.provision_states import VERBS
from app.lifecycle.verb_arguments import ARGUMENTS, SECRETS, Content, arguments_of, required_by

REQUEST_FIELDS = {"target", "dry_run"}


def test_the_table_has_all_arguments_that_a_request_takes():
    assert ARGUMENTS.keys() == ProvisionTarget().fields.keys() - REQUEST_FIELDS


def test_rollouts_take_all_arguments_but_secrets():
    assert ARGUMENTS.keys() & RolloutCreate().fields.keys() == ARGUMENTS.keys() - SECRETS


def test_the_command_line_takes_all_arguments():
    parameters = inspect.signature(commands.provision_state).parameters
    options = {f"--{name.replace('_', '-')}" for name in parameters}
    assert {commands.option_of(name) for name in ARGUMENTS} <= options


def test_arguments_name_verbs_that_exist_and_versions_name_arguments():
    assert {verb for argument in ARGUMENTS.values() for verb in argument.verbs} <= VERBS.keys()
    for key in versions.ARGUMENTS:
        name, *verb = (key,) if isinstance(key, str) else key
        assert {*verb} <= {*ARGUMENTS[name].verbs}


def test_a_verb_takes_no_steps_but_those_of_its_flow():
    for verb, event in VERBS.items():
        declaration = DECLARATIONS.get(event)
        flow = declaration.flow if declaration else None
        for name, argument in arguments_of(verb).items():
            assert argument.content is not Content.STEPS or name == f"{flow}_steps"


@pytest.mark.parametrize(
    ("verb", "names"),
    [
        ("clean", ("clean_steps", "runbook")), ("service", ("service_steps", "runbook")),
        ("rescue", ("rescue_password",)), ("active", ()), ("provide", ()),
    ],
)  # fmt: skip
def test_a_runbook_serves_in_place_of_required_steps_only(verb, names):
    assert required_by(verb) == names
