"""
Worth of the row layer: CPU of lifecycles, lists and heartbeats with each of its parts and without.

Everything runs in this process, without Celery, Redis and a server; on PostgreSQL the time of the
server's processes for its connections counts, too. Without a part, SQLAlchemy does its work in the
plainest way. A round has each variant once, in an order that rotates; a figure is the mean of the
lowest fifth, as other load of the machine only adds to the time of a process. Of two runs on a busy
machine, differences of a tenth are noise.
"""

import gc
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson
import structlog
from sqlalchemy import and_, select
from sqlalchemy.orm import Session, aliased

from app.agents import heartbeats
from app.api.node import node_query, node_view
from app.api.policy.masking import DOCUMENTS
from app.api.transport.responses import links
from app.db import clock, detached_rows, schema
from app.db.prepared import Prepared
from app.engine import operations, provisioning
from app.identity.caller import Caller
from app.models import AgentRecord, Node, Operation, OperationStep, Port, StepState
from app.server.application import create_app
from app.text.masking import mask
from tests.bench import cpu
from tests.bench.bench_api import BODY, PAGE, STATES, VERSION
from tests.bench.bench_lifecycle import VERBS
from tests.support import postgresql
from tests.support.inside import Inside
from workers.conductor import attempts, claims

#: Rounds; lifecycles, pages and batches of heartbeats per round and variant.
ROUNDS, LIVES, PAGES, BATCHES = 15, 6, 4, 10
#: Heartbeats of one batch.
AGENTS = 16


@contextmanager
def replaced(*changes):
    """Replace attributes: (object, name, value)."""
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    try:
        for owner, name, value in changes:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in originals:
            setattr(owner, name, value)


class Core:
    """The methods of `Prepared`, by `Connection.execute`."""

    def first(self, connection, values):
        row = connection.execute(self.statement, values).first()
        return None if row is None else tuple(row)

    def all(self, connection, values):
        return [tuple(row) for row in connection.execute(self.statement, values).all()]

    def count(self, connection, values):
        return connection.execute(self.statement, values).rowcount

    def many(self, connection, values):
        connection.execute(self.statement, list(values))


@contextmanager
def without_prepared():
    """Claims on PostgreSQL are separate statements: SQLAlchemy does not execute the joined one."""
    methods = ("first", "all", "count", "many")
    with (
        without_joined_statements(),
        replaced(*((Prepared, name, getattr(Core, name)) for name in methods)),
    ):
        yield


_LOCK_BOTH = (
    select(Node, Operation, operations._LEVEL)
    .where(*operations._DETACHED.statement.whereclause.clauses, Operation.node_id == Node.id)
    .with_for_update()
)


@contextmanager
def _in_session(session, node_id, operation_id):
    parameters = {"node_id": node_id, "operation_id": operation_id}
    node, operation, level = session.execute(_LOCK_BOTH, parameters).one()
    session.info[operations.WATERMARK] = level
    yield node, operation


def without_detached_outcomes():
    return replaced((operations, "detached", _in_session))


def _flushed(connection, rows):
    with Session(connection, expire_on_commit=False) as session:
        session.add_all(rows)
        session.flush()
    return rows[0].id


def without_detached_inserts():
    """The new operation, its steps, and entries of the history, by a flush of a session each."""
    return replaced(
        (detached_rows, "add", lambda connection, row: _flushed(connection, [row])),
        (detached_rows, "add_all", _flushed),
    )


_NEXT = aliased(OperationStep)
_CLAIMED = (
    select(Operation, OperationStep, Node, AgentRecord, _NEXT.state, Port)
    .join(
        OperationStep,
        and_(
            OperationStep.operation_id == Operation.id, OperationStep.position == Operation.cursor
        ),
    )
    .join(Node, Node.id == Operation.node_id)
    .outerjoin(AgentRecord, AgentRecord.node_id == Operation.node_id)
    .outerjoin(
        _NEXT, and_(_NEXT.operation_id == Operation.id, _NEXT.position == Operation.cursor + 1)
    )
    .outerjoin(Port, Port.node_id == Operation.node_id)
)


def _claim(conductor, operation, fence, cursor, *, token, leased_node):
    """A claim, whose rows a session reads; leased_node is right."""
    parameters = {
        "operation": operation, "at": cursor, "under": fence, "token": token, "timeout": 60,
        "incarnation": conductor.incarnation, "mark": conductor.watermark,
    }  # fmt: skip
    with conductor.write_connection() as connection:
        assert claims._CLAIM_OPERATION.count(connection, parameters)
        start = {"operation": operation, "at": cursor, "who": conductor.name}
        claims._START_STEP.count(connection, start)
        with Session(connection, expire_on_commit=False) as session:
            query = _CLAIMED.where(Operation.uuid == operation, Operation.claim == token)
            rows = session.execute(query).all()
            session.expunge_all()
    operation, step, node, agent, state, _ = rows[0]
    ports = [row[-1] for row in rows if row[-1]]
    has_next = state == StepState.PENDING
    return claims.Attempt(operation, node, step, ports, agent, has_next, resumed=step.deaths > 0)


def without_detached_claims():
    return replaced((claims, "_claim", _claim))


class _Separate:
    """A claim on PostgreSQL by three statements, as on SQLite."""

    def all(self, connection, values):
        assert claims._CLAIM_OPERATION.count(connection, values)
        claims._START_STEP.count(connection, values)
        return claims._CLAIMED.all(connection, values)

    def count(self, connection, values):
        advanced = claims._ADVANCE_OPERATION.count(connection, values)
        return advanced and claims._END_STEP.count(connection, values)


def without_joined_statements():
    return replaced(
        (claims, "_CLAIM_AT_ONCE", _Separate()), (claims, "_ADVANCE_AT_ONCE", _Separate())
    )


def without_combined_columns():
    return _reading_anew((node_query, "RECURRING", frozenset()))


@contextmanager
def _reading_anew(*changes):
    """Change the queries of lists, which are cached."""
    for cached in (node_query._reading, node_view._line):
        cached.cache_clear()
    with replaced(*changes):
        yield
    for cached in (node_query._reading, node_view._line):
        cached.cache_clear()


def _documents(context, connection, rows, read, *, conductor=None):
    """Decode all columns, make a dict of each node, mask it, and encode it."""
    names = [name for name in read.fields if name in node_query._NODES]
    texts = {name: node_query._TEXTS[name] for name in ("traits", "holds") if name in read.fields}
    query = select(
        *(node_query._NODES[name] for name in names),
        *(column.label(name) for name, column in texts.items()),
    ).order_by(node_query._NODES.id)
    for row in connection.execute(query.limit(len(rows))).all():
        values = dict(row._mapping)
        values |= {name: orjson.loads(values[name]) for name in texts}
        values |= {name: mask(values[name], name) for name in DOCUMENTS if name in values}
        for name in ("links", *node_query.LINKED):
            path = f"nodes/{values['uuid']}" + ("" if name == "links" else f"/{name}")
            values[name] = links(path, context.base_url)
        document = {name: values.get(name) for name in read.fields}
        yield orjson.Fragment(orjson.dumps(document, option=orjson.OPT_UTC_Z))


def _listed(*arguments, **names):
    return list(_documents(*arguments, **names))


def without_json_texts():
    """The page's own query is a tenth of its cost, and runs as before."""
    return replaced((node_view, "views", _listed))


class Agents:
    """Heartbeats of agents that arrive together."""

    def __init__(self, inside):
        self._runtime = inside.runtime
        nodes = [inside.node("deploying") for _ in range(AGENTS)]
        for node in nodes:
            inside.agent(node, heartbeats=0)
        body = {"callback_url": "https://agent:9999", "agent_token": "t", "agent_version": "11"}
        self._heartbeats = [
            heartbeats.AgentHeartbeat(inside.read(node).uuid, body) for node in nodes
        ]
        self._record_alone()  # the digest of the token

    def __call__(self):
        assert all(heartbeats.record_batch(self._runtime, self._heartbeats))

    def alone(self):
        """A transaction for each."""
        return replaced((heartbeats, "record_batch", lambda *_: self._record_alone()))

    def _record_alone(self):
        for heartbeat in self._heartbeats:
            heartbeats.heartbeat(self._runtime, *heartbeat)
        return [True]


def living(inside):
    """Return a function that takes a new node through its life, without Celery."""
    conductor = inside.conductor(heartbeat_at=clock.after(86400))

    def live():
        node = inside.node()
        for verb in VERBS:
            with inside.runtime.transaction() as session:
                row = operations.lock(session, node)
                provisioning.request(session, row, verb, {}, Caller())
            while inside.messages:
                attempts.run(conductor, inside.messages.pop(0))

    return live


def filled(inside):
    """Return a client of an API with a page of nodes."""
    for number in range(PAGE):
        documents = {name: {**BODY[name], "number": number} for name in ("driver_info", "extra")}
        fields = {**BODY, **documents, "name": f"node-{number}"}
        del fields["driver"]  # `node` has one
        inside.node(STATES[number % len(STATES)], **fields)
    return create_app(inside.runtime).test_client()


@dataclass
class Service:
    """The service in this process. used: its CPU seconds, with those of its server's processes."""

    inside: Inside
    used: Callable[[], float]


def main(_nodes):
    with ExitStack() as started:
        folder = started.enter_context(tempfile.TemporaryDirectory())
        url = f"sqlite:///{Path(folder, 'ingot.db')}"
        measure("SQLite", url, time.process_time)
        server = started.enter_context(postgresql.serving())
        url = server.database()
        observer = started.enter_context(closing(server.connect()))
        measure("PostgreSQL", url, partial(used_with_server, observer, postgresql.name_of(url)))


def used_with_server(observer, database):
    query = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND backend_type LIKE 'client%%'"
    pids = [pid for (pid,) in observer.execute(query, [database])]
    return time.process_time() + cpu.of_processes(pids)


def measure(database, url, used):
    """Print the worth of each part for lifecycles, heartbeats and lists on a new database."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    schema.upgrade(url)
    service = Service(Inside(url), used)
    joined = {"statements joined by WITH": without_joined_statements}
    lives = {
        "prepared statements": without_prepared,
        "outcomes without a session": without_detached_outcomes,
        "inserts without a session": without_detached_inserts,
        "claims without a session": without_detached_claims,
        **(joined if database == "PostgreSQL" else {}),
    }
    report(f"{database}, lifecycle", compare(service, living(service.inside), LIVES, lives))
    beat = Agents(service.inside)
    batches = {"prepared statements": without_prepared, "one transaction for all": beat.alone}
    report(f"{database}, heartbeat", compare(service, beat, BATCHES, batches), AGENTS)
    client = filled(service.inside)
    for name, path in (("list", "/v1/nodes"), ("details", "/v1/nodes/detail")):
        pages = {
            "JSON texts": without_json_texts,
            "recurring columns as one": without_combined_columns,
        }
        page = partial(client.get, f"{path}?limit={PAGE}", headers=VERSION)
        report(f"{database}, {name} of {PAGE}", compare(service, page, PAGES, pages))
    path = client.get("/v1/nodes?limit=1", headers=VERSION).json["nodes"][0]["links"][0]["href"]
    one = partial(client.get, path, headers=VERSION)
    variants = {"prepared statements": without_prepared}
    report(f"{database}, one node", compare(service, one, 10 * PAGES, variants))
    service.inside.close()


def compare(service, work, times, variants):
    """Return variant -> CPU ms of each work; the first is `base`, with all parts."""
    variants = {"base": nullcontext, **variants}
    costs = {name: [] for name in variants}
    names = list(variants)
    for number in range(ROUNDS + 1):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            gc.collect()
            with variants[name]():
                for _ in range(times):
                    began = service.used()
                    work()
                    if number:  # statements are compiled in the first round
                        costs[name].append((service.used() - began) * 1000)
    return costs


def report(title, costs, items=1):
    """Print the worth of each part. items: of one work, such as heartbeats of a batch."""
    figures = {
        name: statistics.mean(sorted(values)[: len(values) // 5 + 1]) / items
        for name, values in costs.items()
    }
    base = figures.pop("base")
    print(f"{title}: {base:.3f} ms; more without")
    for name, figure in figures.items():
        percent = 100 * (figure / base - 1)
        print(f"  {name:28}{figure - base:+9.3f} ms{percent:+7.1f} %", flush=True)
