"""The service in the test's own process: its rows, its services, its workers' functions."""

import uuid
from contextlib import nullcontext
from types import SimpleNamespace

from sqlalchemy import text

from app.broker.messages import Message
from app.cluster import conductors
from app.config import settings
from app.db import clock
from app.db.sealing import keyring_of
from app.engine import dispatch, operations, provisioning
from app.identity.caller import Caller
from app.models import AgentRecord, Conductor, Node, Operation, OperationStep
from app.runtime import make
from tests.support.fleet import until
from tests.support.loopback import LOOPBACK
from workers.conductor import attempts
from workers.conductor.conductor import Conductor as Claimant

#: Whether another connection to a PostgreSQL database waits for a row.
BLOCKED = """
SELECT count(*) > 0 FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


class AlwaysGiven:
    """Leases that are always granted: only the rows decide."""

    def take(self, node, fence, has_valid_fence):
        return SimpleNamespace(check=lambda: None, keep=lambda _seconds: None, calling=nullcontext)

    def give_back(self, lease):
        pass


class AlwaysNotes:
    """A witness that is always available."""

    def note(self, node):
        return True


class NoWaker:
    """No wait monitor: no waiting operation is polled."""

    running = False

    def poll(self, *_):
        pass

    def watch(self, *_):
        pass

    def watches(self, *_):
        return False


class Inside:
    """One process's view of the service: `messages` has those that it would have sent."""

    def __init__(self, url, **environ):
        self.url, self.environ = url, environ
        self.messages = []
        usual = {"INGOT_DATABASE_CONNECTION": url, **LOOPBACK}
        self.settings = settings.load(usual | environ)
        self.runtime = make(self.settings, self._send)

    def _send(self, message):
        self.messages.append(message)
        return True

    def another(self):
        """Another process, with its own connections, caches and gate."""
        return Inside(self.url, **self.environ)

    def close(self):
        self.runtime.engine.dispose()

    def conductor(self, name="c-1", **columns):
        """
        Register a conductor that claims steps here.

        It sends no heartbeats, and counts as alive for ten minutes.
        """
        incarnation = str(uuid.uuid4())
        claimant = Claimant(
            name, incarnation, self.runtime, AlwaysGiven(), AlwaysNotes(), NoWaker()
        )
        with self.runtime.transaction() as session:
            conductors.register(session, name, claimant.incarnation, "", self.drivers())
        self.change(Conductor, name, **{"heartbeat_at": clock.after(600), **columns})
        self.runtime.cache.pop("members", None)
        return claimant

    def drivers(self):
        return {
            name: {kind: list(interfaces) for kind, interfaces in kinds.items()}
            for name, kinds in self.runtime.drivers.types.items()
        }

    def node(self, state="enroll", **columns):
        """Create a node; return its id."""
        with self.runtime.transaction() as session:
            node = Node(
                uuid=str(uuid.uuid4()), driver="fake-hardware", provision_state=state, **columns
            )
            session.add(node)
            session.flush()
            return node.id

    def await_a_blocked_writer(self):
        """Wait until another transaction waits for a row; SQLite has one lock for all rows."""
        if self.runtime.engine.dialect.name == "postgresql":
            until(self._is_a_writer_blocked, "a transaction that waits for a row")

    def _is_a_writer_blocked(self):
        with self.runtime.reading() as session:
            return session.scalar(text(BLOCKED))

    def request(self, node_id, verb):
        """Request a verb, as the API does; return the operation's UUID."""
        with self.runtime.transaction() as session:
            node = operations.lock(session, node_id)
            provisioning.request(session, node, verb, {}, Caller())
            session.flush()
            return session.get_one(Operation, node.operation_id).uuid

    def message(self, name):
        """Message of an operation in its present state: the chain of its remaining steps."""
        with self.runtime.reading() as session:
            operation = session.query(Operation).filter_by(uuid=name).one()
            node = session.get_one(Node, operation.node_id)
            links = dispatch.links_of(session, operation)
            return Message("c-1", node.uuid, name, operation.fence, links)

    def deliver(self, claimant, message):
        """Let a conductor run a message, and the messages that are sent meanwhile."""
        delivered = len(self.messages)
        attempts.run(claimant, message)
        while delivered < len(self.messages):
            delivered += 1
            attempts.run(claimant, self.messages[delivered - 1])

    def operation(self, name):
        with self.runtime.reading() as session:
            return session.query(Operation).filter_by(uuid=name).one()

    def steps(self, name):
        with self.runtime.reading() as session:
            return operations.steps_of(session, session.query(Operation).filter_by(uuid=name).one())

    def read(self, node_id):
        with self.runtime.reading() as session:
            return session.get_one(Node, node_id)

    def change(self, kind, which, **columns):
        """Set columns of a row, found by id, uuid or name."""
        with self.runtime.transaction() as session:
            by = {"id": which}
            if isinstance(which, str):
                by = {"hostname" if kind is Conductor else "uuid": which}
            row = session.query(kind).filter_by(**by).one()
            for name, value in columns.items():
                setattr(row, name, value)

    def change_step(self, name, position, **columns):
        row = self.steps(name)[position]
        self.change(OperationStep, row.id, **columns)

    def agent(self, node_id, **columns):
        """Record of an agent that has sent a heartbeat."""
        with self.runtime.transaction() as session:
            columns = {"url": "https://agent:9999", "token": "t", "heartbeats": 1, **columns}
            agent = AgentRecord(node_id=node_id, last_heartbeat_at=clock.now(), **columns)
            if agent.token and "token_digest" not in columns:
                keyring = keyring_of(self.runtime.engine.dialect)
                agent.token_digest = keyring.digest(agent.token)
            session.add(agent)
