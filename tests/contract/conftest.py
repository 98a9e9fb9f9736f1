"""An application on an empty database, with one live conductor that loaded every driver."""

from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient
from sqlalchemy import update

from app import runtime as app_runtime
from app.main import create_app
from app.models import Base, Conductor, Node
from app.runtime import Runtime
from app.settings import Settings

NEWEST = "1.115"


@dataclass
class Api:
    """Speaks to the application in a microversion, and looks into its database."""

    client: FlaskClient
    runtime: Runtime
    version: str | None = NEWEST

    def at(self, version: str | None) -> "Api":
        return replace(self, version=version)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        if self.version is not None:
            headers["X-OpenStack-Ironic-API-Version"] = self.version
        sent = {} if body is None else {"json": body}
        return self.client.open(path, method=method, headers=headers, **sent)

    def node(self, **fields: Any) -> dict[str, Any]:
        """A new node, as the API shows it; columns that it cannot set are set in the database."""
        answer = self("POST", "/v1/nodes", {"driver": "fake-hardware"})
        assert 201 == answer.status_code, answer.text
        if fields:
            self.set(answer.json["uuid"], **fields)
        return self("GET", f"/v1/nodes/{answer.json['uuid']}").json

    def set(self, uuid: str, **columns: Any) -> None:
        with self.runtime.transaction() as session:
            session.execute(update(Node).where(Node.uuid == uuid).values(**columns))


def fault(answer: Any) -> dict[str, Any]:
    """The inner document of an error."""
    return orjson.loads(answer.json["error_message"])


@pytest.fixture
def settings(tmp_path):
    base = Settings()
    return replace(
        base,
        database=replace(base.database, connection=f"sqlite:///{tmp_path / 'test.db'}"),
        conductor=replace(base.conductor, node_locked_retry_interval=0.01),
    )


@pytest.fixture
def sent():
    """The messages that left for the workers."""
    return []


@pytest.fixture
def runtime(settings, sent):
    def send(message):
        sent.append(message)
        return True

    made = app_runtime.make(settings, send)
    Base.metadata.create_all(made.engine)
    with made.transaction() as session:
        loaded = {
            name: {kind: list(names) for kind, names in kinds.items()}
            for name, kinds in made.drivers.types.items()
        }
        session.add(Conductor(hostname="rack-1", incarnation="1", interfaces=loaded))
    yield made
    made.engine.dispose()


@pytest.fixture
def api(runtime):
    return Api(create_app(runtime).test_client(), runtime)
