"""Measured numbers over the API: pages, filters, the command, deletion with the node."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import func, select

from app.db.clock import moment
from app.inventory import nodes
from app.models import Benchmark
from tests.contract.conftest import fault
from tests.support.inside_commands import Ingot


def add(api, ident, *metrics, age=timedelta(), **columns):
    """Insert numbers 1, 2, ... of some metrics, and return the time of their record."""
    with api.runtime.transaction() as session:
        node, time = nodes.find(session, ident), moment(session) - age
        for position, metric in enumerate(metrics):
            session.add(
                Benchmark(
                    node_id=node.id, operation_uuid=str(uuid4()), position=position,
                    step="deploy.burnin_disk", metric=metric, value=position + 1, unit="MB/s",
                    started_at=time, recorded_at=time, **columns,
                )
            )  # fmt: skip
            session.flush()
    return time


def listed(answer):
    assert 200 == answer.status_code, answer.text
    return [item["metric"] for item in answer.json["benchmarks"]]


def test_numbers_are_listed_newest_first_in_pages(api):
    api.node(name="n1")
    other = api.node()
    add(api, "n1", "fio.read", "fio.write", "stress")
    add(api, other["uuid"], "else")
    assert ["stress", "fio.write", "fio.read"] == listed(api("GET", "/v1/nodes/n1/benchmarks"))
    page = api("GET", "/v1/nodes/n1/benchmarks?limit=2")
    assert ["stress", "fio.write"] == listed(page)
    assert ["fio.read"] == listed(api("GET", page.json["next"].partition("http://localhost")[2]))
    assert "fio.read" == listed(api("GET", "/v1/nodes/n1/benchmarks?sort_dir=asc"))[0]
    item = page.json["benchmarks"][1]
    assert (2.0, "MB/s", "deploy.burnin_disk") == (item["value"], item["unit"], item["step"])
    assert item["started_at"] == item["recorded_at"]
    marker = api("GET", f"/v1/nodes/{other['uuid']}/benchmarks").json["benchmarks"][0]["sequence"]
    assert 404 == api("GET", f"/v1/nodes/n1/benchmarks?marker={marker}").status_code
    assert 404 == api("GET", "/v1/nodes/none/benchmarks").status_code


def test_numbers_are_filtered_by_metric_and_time(api):
    api.node(name="n1")
    add(api, "n1", "fio.read.max", "fio.read", "fio.reads", "fio", age=timedelta(hours=2))
    since = add(api, "n1", "fio.read").isoformat()

    def of(query):
        return listed(api("GET", f"/v1/nodes/n1/benchmarks?{query}"))

    assert ["fio.read", "fio.read", "fio.read.max"] == of("metric=fio.read")
    assert [] == of("metric=f%25") == of("metric=_io")
    assert ["fio.read"] == of(f"since={since}")
    assert ["fio", "fio.reads", "fio.read", "fio.read.max"] == of(f"until={since}")


@pytest.mark.parametrize(
    "query",
    ["limit=0", "marker=x", "marker=-1", "sort_key=value", "fields=value", "metric=", "since=x",
     f"metric={'x' * 129}"],
)  # fmt: skip
def test_a_wrong_query_is_refused(api, query):
    api.node(name="n1")
    answer = api("GET", f"/v1/nodes/n1/benchmarks?{query}")
    assert 400 == answer.status_code
    assert query.partition("=")[0] in fault(answer)["faultstring"].lower()


def test_numbers_are_deleted_with_their_node(api):
    node = api.node(name="n1")
    add(api, "n1", "fio.read")
    assert 204 == api("DELETE", f"/v1/nodes/{node['uuid']}").status_code
    with api.runtime.reading() as session:
        assert 0 == session.scalar(select(func.count()).select_from(Benchmark))


def test_the_command_lists_numbers(api, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    api.node(name="n1")
    add(api, "n1", "old", age=timedelta(days=3))
    add(api, "n1", "fio.read", "fio.write")
    ingot = Ingot(api.client.application)
    table = ingot("node", "benchmarks", "n1", "--metric", "fio", "-o", "table")
    assert all(word in table.out for word in ("fio.read", "fio.write", "MB/s", "deploy.burnin"))
    assert "old" not in table.out
    recent = json.loads(ingot("node", "benchmarks", "n1", "--since", "2d", "-o", "json").out)
    assert ["fio.write", "fio.read"] == [item["metric"] for item in recent]
    newest = json.loads(ingot("node", "benchmarks", "n1", "--limit", "1", "-o", "json").out)
    assert ["fio.write"] == [item["metric"] for item in newest]


def test_a_rule_of_measured_numbers_is_checked(api):
    field = "benchmark.value.fio.read"
    body = {"name": "b", "selection": "name=*", "failed_benchmark": "hold"}
    expected = [{"field": field, "operator": ">=", "value": 97.5}]
    created = api("POST", "/v1/baselines", {**body, "expected": expected})
    assert (201, "hold", expected) == (
        created.status_code, created.json["failed_benchmark"], created.json["expected"],
    )  # fmt: skip
    for rule, message in (
        ({"value": "97"}, "is a number, as 512 or 97.5"), ({"value": True}, "expected/0/value"),
        ({"value": None}, "expected/0/value"), ({"operator": "="}, "takes >=, <="),
        ({"field": "benchmark.value.a b"}, "no step may measure"),
        ({"field": "benchmark.value."}, "no step may measure"), ({"field": "benchmark.x"}, "there is no"),
    ):  # fmt: skip
        answer = api(
            "POST", "/v1/baselines", {**body, "name": "c", "expected": [expected[0] | rule]}
        )
        assert 400 == answer.status_code, rule
        assert message in fault(answer)["faultstring"], rule
    answer = api("POST", "/v1/baselines", {**body, "expected": expected, "failed_benchmark": "no"})
    assert (400, True) == (answer.status_code, "failed_benchmark" in fault(answer)["faultstring"])
