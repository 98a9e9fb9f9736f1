"""A field of a node is one row: a copy of the tree gets a column, a migration and a row."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from app.api import node_fields
from app.models import node as model

ROOT = Path(__file__).parents[2]
SINCE, BEFORE = "1.110", "1.109"
COLUMN = "    rack: Mapped[str | None] = mapped_column(String(8))\n"
ROW = """\
    Field("rack", Text(8, allow_none=True), since=110, update=SYSTEM_ADMIN, filter=Filter(Text()),
          option=Option("Where it stands")),
"""
MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision = "rack"
down_revision = "{head}"
branch_labels = None
depends_on = None


def upgrade():
    op.add_column("nodes", sa.Column("rack", sa.String(length=8), nullable=True))
"""
#: Serve the API on a migrated database; the first line of the output is the port.
SERVE = """
import sys
from dataclasses import replace

from werkzeug.serving import make_server

from app import runtime
from app.config.settings import Settings
from app.db import schema
from app.main import create_app
from app.models import Conductor

base, url = Settings(), f"sqlite:///{sys.argv[1]}"
schema.upgrade(url)
settings = replace(
    base,
    database=replace(base.database, connection=url),
    conductor=replace(base.conductor, heartbeat_timeout=3600),
)
made = runtime.make(settings, send=lambda _: True)
loaded = {
    name: {kind: list(names) for kind, names in kinds.items()}
    for name, kinds in made.drivers.types.items()
}
with made.transaction() as session:
    session.add(Conductor(hostname="rack-1", incarnation="1", interfaces=loaded))
server = make_server("127.0.0.1", 0, create_app(made))
print(server.port, flush=True)
server.serve_forever()
"""


@dataclass
class Extended:
    """The copy, and the API that runs from it."""

    folder: Path
    environ: dict[str, str]
    url: str = ""

    def ask(self, method, path, body=None, version=SINCE):
        headers = {"X-OpenStack-Ironic-API-Version": version}
        return requests.request(method, self.url + path, json=body, headers=headers, timeout=30)

    def run(self, *words):
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False,
            timeout=60,
        )  # fmt: skip

    def cli(self, *words):
        done = self.run("-m", "workers.ingot", *words)
        assert 0 == done.returncode, done.stderr
        return done.stdout


def within(module):
    """The path of a module in the tree."""
    return Path(module.__file__).relative_to(ROOT)


def insert(path, before, text):
    found = path.read_text()
    assert 1 == found.count(before), path
    path.write_text(found.replace(before, text + before))


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("extended")
    for name in ("app", "docs", "drivers", "migrations", "workers"):
        shutil.copytree(ROOT / name, folder / name)
    head = max(path.stem[:4] for path in (folder / "migrations/versions").glob("[0-9]*.py"))
    insert(folder / within(model), "    shard: Mapped", COLUMN)
    insert(folder / within(node_fields), '    Field("shard"', ROW)
    (folder / "migrations/versions/rack.py").write_text(MIGRATION.format(head=head))
    copy = Extended(folder, {**os.environ, "PYTHONPATH": str(folder)})
    command = [sys.executable, "-c", SERVE, str(folder / "ingot.db")]
    with subprocess.Popen(command, cwd=folder, env=copy.environ, stdout=subprocess.PIPE) as serving:
        try:
            generated = copy.run("-m", "docs.generate")
            assert 0 == generated.returncode, generated.stderr
            copy.url = f"http://127.0.0.1:{int(serving.stdout.readline())}"
            copy.environ["INGOT_URL"] = copy.url
            yield copy
        finally:
            serving.kill()


@pytest.fixture(scope="module")
def nodes(extended):
    """rack -> the UUID of a node there."""
    made = {}
    for rack in ("b", "a"):
        body = {"driver": "fake-hardware", "rack": rack}
        answer = extended.ask("POST", "/v1/nodes", body)
        assert (201, rack) == (answer.status_code, answer.json()["rack"])
        made[rack] = answer.json()["uuid"]
    return made


def listed(answer):
    return [node["uuid"] for node in answer.json()["nodes"]]


def test_an_added_field_is_checked_and_changed(extended, nodes):
    path = f"/v1/nodes/{nodes['b']}"
    etag = extended.ask("GET", path).headers["ETag"]
    changed = extended.ask("PATCH", path, [{"op": "replace", "path": "/rack", "value": "c"}])
    assert (200, "c") == (changed.status_code, changed.json()["rack"])
    assert etag != changed.headers["ETag"]
    removed = extended.ask("PATCH", path, [{"op": "remove", "path": "/rack"}])
    assert removed.json()["rack"] is None
    extended.ask("PATCH", path, [{"op": "add", "path": "/rack", "value": "b"}])
    assert "b" == extended.ask("GET", path).json()["rack"]
    for value in (5, "too long a name"):
        answer = extended.ask("POST", "/v1/nodes", {"driver": "fake-hardware", "rack": value})
        assert 400 == answer.status_code
        assert "rack" in answer.text


def test_an_added_field_is_shown_in_its_place_from_its_version_on(extended, nodes):
    path = f"/v1/nodes/{nodes['a']}"
    names = list(extended.ask("GET", path).json())
    at = names.index("rack")
    assert ["provision_updated_at", "rack", "raid_config"] == names[at - 1 : at + 2]
    assert "rack" not in extended.ask("GET", path, version=BEFORE).json()
    details = extended.ask("GET", "/v1/nodes/detail").json()["nodes"]
    assert ["b", "a"] == [node["rack"] for node in details]


def test_an_added_field_filters_and_sorts_lists(extended, nodes):
    assert [nodes["a"]] == listed(extended.ask("GET", "/v1/nodes?rack=a"))
    assert [] == listed(extended.ask("GET", "/v1/nodes?rack=z"))
    assert [nodes["a"], nodes["b"]] == listed(extended.ask("GET", "/v1/nodes?sort_key=rack"))
    chosen = extended.ask("GET", "/v1/nodes?fields=rack").json()["nodes"]
    assert ["b", "a"] == [node["rack"] for node in chosen]


def test_an_added_field_is_refused_below_its_version(extended, nodes):
    path = f"/v1/nodes/{nodes['a']}"
    body = {"driver": "fake-hardware", "rack": "a"}
    change = [{"op": "replace", "path": "/rack", "value": "c"}]
    for answer in (
        extended.ask("POST", "/v1/nodes", body, BEFORE),
        extended.ask("PATCH", path, change, BEFORE),
        *(
            extended.ask("GET", f"/v1/nodes?{query}", version=BEFORE)
            for query in ("rack=a", "sort_key=rack", "fields=rack")
        ),
    ):
        assert 406 == answer.status_code
        assert "1.110" in answer.text


def test_an_added_field_is_an_option_and_a_column_of_the_command_line(extended, nodes):
    assert "--rack" in extended.cli("node", "create", "--help")
    extended.cli("node", "set", nodes["a"], "--rack", "a2")
    shown = extended.cli("node", "list", "--fields", "rack", "-o", "json")
    assert "a2" in shown
    extended.cli("node", "set", nodes["a"], "--rack", "a")


def test_an_added_field_is_documented(extended):
    document = extended.ask("GET", "/openapi.json").json()
    schemas = document["components"]["schemas"]
    expected = {"type": ["string", "null"], "maxLength": 8, "x-since": SINCE}
    assert expected == schemas["NodeCreate"]["properties"]["rack"]
    assert SINCE == schemas["Node"]["properties"]["rack"]["x-since"]
    parameters = document["paths"]["/v1/nodes"]["get"]["parameters"]
    assert "rack" in [each.get("name") for each in parameters]
    api, policy = (extended.folder / "docs" / name for name in ("api.md", "policy.md"))
    rule = "`baremetal:node:update:rack`"
    assert f"| `rack` | {SINCE} | POST, PATCH | {rule} | {SINCE} | yes |" in api.read_text()
    assert f"| {rule} | Change `rack` | `rule:system_admin` |" in policy.read_text()
