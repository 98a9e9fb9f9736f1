"""An application on an empty database, with one live conductor with all drivers."""

from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import delete, update

from app import runtime as app_runtime
from app.api.agent import heartbeat_fast_path
from app.api.transport import limits
from app.api.transport.limits import REFUSED_PER_MINUTE
from app.audit import refused_requests
from app.broker.messages import Message
from app.config.settings import Settings
from app.db import schema
from app.db.clock import after
from app.models import Base, ChangeEvent, Conductor, Node, secret
from app.runtime import Runtime
from app.server.application import create_app
from tests.support.loopback import OTHERS_DENIED
from tests.support.tree_copy import Copy

NEWEST = "1.115"


@dataclass
class Api:
    """
    Client of the application in a microversion, with access to its database.

    messages: those to the workers.
    """

    client: FlaskClient
    runtime: Runtime
    messages: list[Message]
    version: str | None = NEWEST

    def at(self, version: str | None) -> "Api":
        return replace(self, version=version)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        if self.version is not None:
            headers["X-OpenStack-Ironic-API-Version"] = self.version
        arguments = {} if body is None else {"json": body}
        return self.client.open(path, method=method, headers=headers, **arguments)

    def node(self, **fields: Any) -> dict[str, Any]:
        """Create a node, also with columns that the API cannot set; return it as the API shows it."""
        answer = self("POST", "/v1/nodes", {"driver": "fake-hardware"})
        assert 201 == answer.status_code, answer.text
        if fields:
            self.set(answer.json["uuid"], **fields)
        return self("GET", f"/v1/nodes/{answer.json['uuid']}").json

    def set(self, uuid: str, **columns: Any) -> None:
        with self.runtime.transaction() as session:
            session.execute(update(Node).where(Node.uuid == uuid).values(**columns))


def fault(answer: Any) -> dict[str, Any]:
    """Return the inner document of an error."""
    return orjson.loads(answer.json["error_message"])


@pytest.fixture
def kind():
    """Kind of database; parametrize a test with it to run on both."""
    return "sqlite"


@pytest.fixture(scope="session")
def applications(tmp_path_factory, request):
    """kind of database -> its application; created once, and emptied for each test."""
    created_applications: dict[str, tuple[Runtime, Flask]] = {}

    def of(kind: str) -> tuple[Runtime, Flask]:
        if kind not in created_applications:
            if kind == "sqlite":
                url = f"sqlite:///{tmp_path_factory.mktemp('contract') / 'ingot.db'}"
            else:
                url = request.getfixturevalue("postgresql_server").database()
            base = Settings()
            settings = replace(
                base,
                database=replace(base.database, connection=url),
                agent=replace(base.agent, denied_networks=OTHERS_DENIED),
                bmc=replace(base.bmc, denied_networks=OTHERS_DENIED),
                conductor=replace(base.conductor, node_locked_retry_interval=0.01),
            )
            schema.upgrade(url)
            runtime = app_runtime.make(settings, send=lambda _message: True)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(heartbeat_fast_path, "RATE", 1000.0)
                patch.setattr(limits, "REFUSED_PER_MINUTE", dict.fromkeys(REFUSED_PER_MINUTE, 0))
                patch.setattr(limits, "REFUSED_FOLLOWERS_PER_MINUTE", 0)
                created_applications[kind] = runtime, create_app(runtime)
        return created_applications[kind]

    yield of
    for runtime, _ in created_applications.values():
        runtime.engine.dispose()


@pytest.fixture(scope="session", autouse=True)
def no_late_records():
    """Keep records of refused requests in memory until a test writes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refused_requests, "WINDOW", 3600)
        yield


@pytest.fixture
def api(applications, kind):
    runtime, app = applications(kind)
    runtime.cache.clear()
    messages: list[Message] = []
    runtime.send = lambda message: bool(messages.append(message) or True)
    loaded = {
        name: {kind: list(names) for kind, names in kinds.items()}
        for name, kinds in runtime.drivers.types.items()
    }
    with runtime.transaction() as session:
        for table in reversed(Base.metadata.sorted_tables):
            session.execute(table.delete())
        session.execute(delete(ChangeEvent))  # those of the rows that were just deleted
        secret.create(session.connection())
        # it is alive until the end of the test, however long that takes
        session.add(Conductor(
            hostname="rack-1", incarnation="1", interfaces=loaded, heartbeat_at=after(3600.0)
        ))  # fmt: skip
    return Api(app.test_client(), runtime, messages)


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """Copy of the tree with the additions of docs/contributing.md, and its service."""
    with Copy.extended(tmp_path_factory.mktemp("extended")).serving() as copy:
        yield copy
