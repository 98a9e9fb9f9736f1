"""Pages of nodes are read by an index, so that their cost is independent of the number of nodes."""

import json
import re
import uuid
from datetime import datetime, timedelta
from urllib.parse import quote

import pytest
from sqlalchemy import event, insert, select, text, update

from app.models import Baseline, BaselineNode, Node

NODES, LIMIT = 4000, 20
#: Values of one node of 400, and of all others.
FEW = {
    "driver": "redfish", "resource_class": "gpu", "conductor_group": "edge", "retired": True,
    "maintenance": True, "fault": "clean failure", "provision_state": "error",
}  # fmt: skip
MOST = {"driver": "ipmi", "resource_class": "baremetal", "provision_state": "available"}
#: Filter -> index with the nodes in the order of their ids.
FILTERS = {
    "driver=redfish": "ix_nodes_driver",
    "driver=irmc": "ix_nodes_driver",  # no node has it
    "resource_class=gpu": "ix_nodes_resource_class",
    "conductor_group=edge": "ix_nodes_conductor_group",
    "retired=true": "ix_nodes_retired",
    "maintenance=true": "ix_nodes_maintenance",
    "fault=clean%20failure": "ix_nodes_fault",
    "associated=true": "ix_nodes_associated",
    "provision_state=error": "ix_nodes_provision_state",
}
#: Sort key -> index in its order; that of names belongs to the unique constraint.
SORTED = {
    "name": "sqlite_autoindex_nodes_|uq_nodes_name",
    "updated_at": "ix_nodes_updated_at",
    "provision_state": "ix_nodes_provision_state",
    "driver": "ix_nodes_driver",
    "conductor_group": "ix_nodes_conductor_group",
}
#: A scan of the whole table, and a sort of its result, in the plans of both databases.
WHOLE = re.compile(r"(?m)SCAN nodes$|Seq Scan|USE TEMP B-TREE FOR ORDER|-> +Sort  ")
#: Filters whose counts by state are read from an index, without rows.
COUNTED = (
    "", "include_children=true", "driver=ipmi", "resource_class=baremetal", "conductor_group=edge",
    "maintenance=false", "maintenance=true", "retired=false", "associated=false", "associated=true",
    "sharded=false", "shard=row-1,row-2", "provision_state=available",
    "driver=ipmi&resource_class=baremetal&maintenance=false&retired=false&associated=false",
)  # fmt: skip


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request):
    return request.param


def rows():
    for number in range(NODES):
        few = FEW | {"instance_uuid": str(uuid.uuid4())} if number % 400 == 0 else {}
        name_column = {"name": f"n{number}"} if number % 40 else {}
        changed = datetime(2026, 1, 1) + timedelta(seconds=number)
        yield MOST | few | name_column | {"uuid": str(uuid.uuid4()), "updated_at": changed}


@pytest.fixture
def many(api, kind):
    """Application with `NODES` nodes, and with statistics on PostgreSQL."""
    with api.runtime.transaction() as session:
        session.execute(insert(Node), list(rows()))
    if kind == "postgresql":
        analyse(api)
    yield api
    if kind == "sqlite":
        with api.runtime.transaction() as session:
            session.execute(text("DROP TABLE IF EXISTS sqlite_stat1"))


def analyse(api):
    with api.runtime.transaction() as session:
        session.execute(text("ANALYZE"))


def plans(api, query):
    """Return the plans of the statements that read a page of nodes."""
    return plans_of(api, f"/v1/nodes?{query}&limit={LIMIT}", "ORDER BY")


def plans_of(api, path, part, *settings):
    """
    Yield the plans of the statements of a request that contain a text.

    settings: of PostgreSQL, for the planner.
    """
    statements = []

    def note(_connection, _cursor, statement, parameters, *_rest):
        if part in statement:
            statements.append((statement, parameters))

    event.listen(api.runtime.engine, "before_cursor_execute", note)
    try:
        answer = api("GET", path)
    finally:
        event.remove(api.runtime.engine, "before_cursor_execute", note)
    assert 200 == answer.status_code, answer.text
    with api.runtime.engine.connect() as connection:
        lite = connection.dialect.name == "sqlite"
        for setting in () if lite else settings:
            connection.exec_driver_sql(f"SET LOCAL {setting}")
        for statement, parameters in statements:
            explain = f"EXPLAIN {'QUERY PLAN ' if lite else ''}{statement}"
            rows = connection.exec_driver_sql(explain, parameters).all()
            yield "\n".join(row[-1] for row in rows)


def assert_by_index(api, query, index):
    query_plans = list(plans(api, query))
    assert query_plans
    for plan in query_plans:
        assert re.search(f"{index}|ix_nodes_unnamed", plan), (query, plan)
        assert not WHOLE.search(plan), (query, plan)


def each_state(many, kind):
    """Application; on SQLite first without statistics, like a new database, then with them."""
    yield many
    if kind == "sqlite":
        analyse(many)
        yield many


def test_nodes_that_differ_from_most_are_found_by_an_index(many, kind):
    for api in each_state(many, kind):
        for query, index in FILTERS.items():
            assert_by_index(api, query, index)


def test_nodes_are_sorted_by_an_index_wherever_the_page_begins(many, kind):
    whole = many("GET", "/v1/nodes?sort_key=name").json["nodes"]
    markers = ["", *(f"&marker={whole[place]['uuid']}" for place in (50, len(whole) // 2))]
    assert whole[50]["name"] is None
    for api in each_state(many, kind):
        for key, index in SORTED.items():
            for marker in markers:
                for direction in ("asc", "desc"):
                    query = f"sort_key={key}&sort_dir={direction}{marker}"
                    assert_by_index(api, query, index)


def test_nodes_of_a_baseline_are_read_by_its_index_however_few_they_are(many, kind):
    with many.runtime.transaction() as session:
        ids = list(session.scalars(select(Node.id).order_by(Node.id)))
        for name, members in (("all", ids), ("few", ids[::100])):
            rules = {"selection": "driver=*", "expected": []}
            baseline = Baseline(uuid=str(uuid.uuid4()), name=name, **rules)
            session.add(baseline)
            session.flush()
            of_baseline = {"baseline_id": baseline.id, "version": 1, "state": "complies"}
            times = dict.fromkeys(("compared_at", "since"), datetime(2026, 1, 1))
            comparisons = [{**of_baseline, **times, "node_id": ident} for ident in members]
            session.execute(insert(BaselineNode), comparisons)
    few = many("GET", "/v1/baselines/few/nodes").json["nodes"]
    marker = f"&marker={few[20]['node_uuid']}"
    assert NODES // 100 == len(few)
    if kind == "postgresql":
        analyse(many)
    for api in each_state(many, kind):
        for name in ("all", "few"):
            for query in ("", "&state=complies", marker):
                path = f"/v1/baselines/{name}/nodes?limit={LIMIT}{query}"
                (plan,) = plans_of(api, path, "ORDER BY")
                scan = re.search(r"(?:Scan using \w+ on|Scan on|SEARCH|SCAN) (\w+)", plan)
                assert "baseline_nodes" == scan[1], plan
                assert not re.search(WHOLE.pattern + "|Merge Join", plan), plan
    following = many("GET", path.replace(f"limit={LIMIT}", "limit=5")).json["nodes"]
    assert few[21:26] == following


def test_nodes_are_counted_by_state_without_a_look_at_their_rows(many, kind):
    if kind == "postgresql":
        with many.runtime.read_connection() as connection:  # rows that no vacuum has seen are read
            connection.execute(text("VACUUM ANALYZE nodes"))
    index = "(COVERING INDEX|Index Only Scan using) ix_nodes_provision_state"
    for api in each_state(many, kind):
        for query in COUNTED:
            path = f"/v1/provision_states?{query}"
            # rows of this test are short, and a scan of them would cost less than one of the index
            (plan,) = plans_of(api, path, "count(", "enable_seqscan = off")
            assert re.search(index, plan), (query, plan)
            assert not re.search("Seq Scan|Heap Scan|Index Scan", plan), (query, plan)


@pytest.fixture
def parsed(many, kind):
    """Documents whose keys were read on SQLite."""
    documents = []

    def json_type(document, path):
        documents.append(document)
        return "text" if path.strip('$."') in json.loads(document) else None

    def replace(connection, *_):
        connection.create_function("json_type", 2, json_type)

    engine = many.runtime.engine
    if kind == "sqlite":
        event.listen(engine, "checkout", replace)
    yield documents
    if kind == "sqlite":
        event.remove(engine, "checkout", replace)
        engine.dispose()  # its connections have the replacement


def test_an_address_is_searched_in_the_documents_of_few_nodes(many, kind, parsed):
    document = {"redfish_address": "https://10.0.0.5"}
    with many.runtime.transaction() as session:
        session.execute(update(Node).where(Node.name == "n7").values(driver_info=document))
    for condition in (
        "bmc=10.0.0.5",
        "last_error~x or bmc=10.0.0.5",
        "name=x or bmc in (10.0.0.5, a*)",
    ):
        parsed.clear()
        (plan,) = plans_of(many, f"/v1/nodes?where={quote(condition)}", "ORDER BY")
        assert ["n7"] == [
            node["name"]
            for node in many("GET", f"/v1/nodes?where={quote(condition)}").json["nodes"]
        ]
        if kind == "sqlite":
            assert {json.dumps(document, separators=(",", ":"))} == set(parsed), condition
        else:
            assert re.search(r"CASE WHEN \(hashed SubPlan \d+\) THEN .*driver_info", plan), plan
