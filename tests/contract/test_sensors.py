"""Recorded sensors over the API, and the command that shows them."""

import orjson
import pytest
from sqlalchemy import select

from app.cli.node_commands import sensors as command
from app.cli.terminal.output import Output
from app.cli.terminal.output_format import Form
from app.db.clock import moment
from app.models import Node, NodeSensors

PATH = "/v1/nodes/n1/sensors"
READINGS = [
    {"name": "Inlet", "kind": "temperature", "reading": 24.5, "unit": "°C", "health": "warning"},
    {"name": "Fan", "kind": "fan", "reading": None, "unit": "%", "health": "unknown"},
]
RING = {
    "times": ["2026-01-31T12:00:00Z", "2026-01-31T12:10:00Z"],
    "values": {"Inlet": [20, 24.5], "Fan": [None, None]},
}


@pytest.fixture
def node(api):
    return api.node(name="n1")


def record(api, **columns):
    with api.runtime.transaction() as session:
        values = {"read_at": moment(session), "health": "warning", **columns}
        session.add(NodeSensors(
            node_id=session.scalar(select(Node.id)), readings=orjson.dumps(READINGS).decode(),
            history=orjson.dumps(RING).decode(), **values,
        ))  # fmt: skip


def test_a_node_whose_sensors_were_never_read_has_none(api, node):
    assert {
        "read_at": None, "error": None, "health": "unknown", "sensors": [],
        "history": {"times": [], "values": {}},
    } == api("GET", PATH).json  # fmt: skip


def test_the_last_readings_are_shown_with_their_history_and_no_bmc_is_asked(api, node):
    record(api, error="BMC x did not answer")
    answer = api("GET", PATH).json
    assert (READINGS, RING, "warning") == tuple(
        answer[name] for name in ("sensors", "history", "health")
    )
    assert "BMC x did not answer" == answer["error"]
    assert answer["read_at"].endswith("+00:00")
    assert [] == api.messages


def test_the_readings_are_deleted_with_their_node(api, node):
    record(api)
    assert 204 == api("DELETE", "/v1/nodes/n1").status_code
    with api.runtime.reading() as session:
        assert [] == session.scalars(select(NodeSensors)).all()
    assert 404 == api("GET", PATH).status_code


def test_a_wrong_query_is_refused(api, node):
    assert 400 == api("GET", f"{PATH}?history=1").status_code


class Answers:
    """A client of the API with answers by path."""

    def __init__(self, answers):
        self.answers = answers

    def get(self, *path):
        return self.answers["/".join(path)]


def test_the_command_shows_readings_and_extremes(capsys):
    answer = {
        "read_at": "2026-01-31T12:10:00+00:00", "error": "no answer", "health": "warning",
        "sensors": READINGS, "history": RING,
    }  # fmt: skip
    api = Answers({"nodes/n1/sensors": answer, "nodes/n1/management/sensors": answer})
    command.sensors(api, Output(), "n1", now=False)
    text = capsys.readouterr().out
    assert "health warning. The last read failed: no answer" in text
    command.sensors(api, Output(Form.VALUE, ("name", "least", "most")), "n1", now=False)
    assert "Inlet\t20\t24.5\nFan\t\t\n" == capsys.readouterr().out
    command.sensors(api, Output(Form.VALUE, ("name", "reading")), "n1", now=True)
    assert "Inlet\t24.5\nFan\t\n" == capsys.readouterr().out
    api.answers["nodes/n1/sensors"] = answer | {"read_at": None, "error": None, "sensors": []}
    command.sensors(api, Output(), "n1", now=False)
    assert "never read" in capsys.readouterr().out
