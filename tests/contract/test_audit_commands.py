"""`ingot audit list` and `export`, against the application on a port of its own."""

import csv
import json
import threading
from datetime import datetime

import pytest
from typer.testing import CliRunner
from werkzeug.serving import make_server

from app.models import AuditRecord
from workers import cli

FORMULA = "=HYPERLINK('http://here')"


@pytest.fixture
def run(api):
    """Function that runs `ingot audit` with words and returns its output."""
    with api.runtime.transaction() as session:
        for number in range(3):
            session.add(
                AuditRecord(action=f"update/node/{number}", outcome="success", status=202,
                            auth="keystone", user_id="u", user_agent=FORMULA, fields="a,b",
                            target=f"node-{number}", created_at=datetime(2026, 1, number + 1))
            )  # fmt: skip
    server = make_server("127.0.0.1", 0, api.client.application, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def run(*words):
        url = f"http://127.0.0.1:{server.server_port}"
        result = CliRunner(env={"INGOT_URL": url, "COLUMNS": "200"}).invoke(
            cli.app, ["audit", *words]
        )
        assert 0 == result.exit_code, result.output
        return result.stdout

    yield run
    server.shutdown()
    thread.join()
    server.server_close()


def test_records_are_listed_newest_first(run):
    lines = run("list", "--limit", "2").splitlines()
    assert ["update/node/2", "update/node/1"] == [
        word for line in lines for word in line.split() if word.startswith("update/")
    ]
    records = json.loads(run("list", "--target", "node-1", "-o", "json"))
    assert [("update/node/1", ["a", "b"])] == [
        (record["action"], record["fields"]) for record in records
    ]


def test_records_are_exported_oldest_first_without_formulas(run):
    exported = [json.loads(line) for line in run("export").splitlines()]
    assert ["node-0", "node-1", "node-2"] == [record["target"] for record in exported]
    rows = list(
        csv.DictReader(run("export", "--csv", "--since", "2026-01-02T00:00:00Z").splitlines())
    )
    assert ["node-1", "node-2"] == [row["target"] for row in rows]
    assert {(f"'{FORMULA}", "a b", "202")} == {
        (row["user_agent"], row["fields"], row["status"]) for row in rows
    }
