"""Metrics of a running service, as Prometheus reads them."""

import json
import os
import re
import signal
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which

import requests
import yaml

from app.metrics.table import METRICS
from tests.support import debian, programs
from tests.support.fleet import CALM, PATIENCE, ROOT, Fleet, until
from tests.support.ports import free_port, free_ports
from tests.support.prerequisites import not_run
from tests.support.recorded import samples_of

VERBS = {"manage": "manageable", "provide": "available", "active": "active"}
DASHBOARD = json.loads((ROOT / "compose/grafana/ingot.json").read_text())
#: Series without a sample in a service in which nothing goes wrong and nothing waits.
QUIET = re.compile(
    r"failures|refusals|takeovers|reconciled|in_maintenance|admission|oldest|webhook|notification|power_update|event_stream|event_subscription|ingot_rollouts|active_operations|bmc_|vault_|4xx"
)


def read(port):
    answer = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=10)
    assert 200 == answer.status_code, answer.text
    return samples_of(answer.text)


def of(metric, samples):
    """Sum of the samples of a metric with `metric` in their text."""
    return sum(value for text, value in samples.items() if metric in text)


def until_counted(port, expected):
    """Wait for sums of metrics: a process counts an event after its effect is visible."""

    def counted():
        samples = read(port)
        return {metric: of(metric, samples) for metric in expected}

    with suppress(AssertionError):
        until(lambda: expected == counted(), "the counts")
    assert expected == counted()


@contextmanager
def prometheus_on(folder, port):
    """Run Prometheus with the service's alert rules; yield the URL of its API."""
    program = debian.provide(lambda: which("prometheus"), "prometheus")
    if program is None:
        not_run("prometheus is missing")
    prometheus_port = free_port()
    configuration = yaml.safe_load((ROOT / "compose/prometheus/prometheus.yml").read_text())
    configuration["global"] = {"scrape_interval": "3s", "evaluation_interval": "3s"}
    configuration["rule_files"] = [str(ROOT / "compose/prometheus/alerts.yml")]
    (job,) = configuration["scrape_configs"]
    del job["dns_sd_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration))
    command = [
        program, f"--config.file={file}", f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address=127.0.0.1:{prometheus_port}", "--log.level=error",
    ]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield f"http://127.0.0.1:{prometheus_port}/api/v1"
        finally:
            process.terminate()


def ask(url, expression):
    """Result of a query."""
    try:
        answer = requests.get(f"{url}/query", params={"query": expression}, timeout=10).json()
    except requests.RequestException:  # it starts
        return []
    assert "success" == answer["status"], (expression, answer)
    return answer["data"]["result"]


def values(series):
    return [sample["value"][1] for sample in series]


def healths(prometheus):
    """Health of each alert rule; "unknown" before its first evaluation."""
    rules = requests.get(f"{prometheus}/rules", timeout=10).json()["data"]["groups"][0]["rules"]
    return [rule["health"] for rule in rules]


def test_prometheus_answers_the_dashboard_and_counters_survive_kills(tmp_path):
    port = free_port()
    settings = {"INGOT_METRICS_PORT": str(port)}
    sweeps = {
        "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "2",
        "INGOT_SENSOR_DATA_SEND_SENSOR_DATA": "true",
        "INGOT_SENSOR_DATA_ENABLE_FOR_UNDEPLOYED_NODES": "true",
        "INGOT_SENSOR_DATA_INTERVAL": "2",
    }
    with (
        Fleet(tmp_path, conductors=2, restart=True, **settings, **sweeps, **CALM) as fleet,
        prometheus_on(tmp_path, port) as prometheus,
    ):
        until(lambda: ask(prometheus, 'up{job="ingot"} == 1'), "a scrape")
        nodes = fleet.create_nodes(3)
        for verb, state in VERBS.items():
            fleet.provision(nodes, verb)
            fleet.await_state(nodes, state)
        fleet.http.get(f"{fleet.url}/v1/nodes/nothing", timeout=10)
        rule = {"field": "memory_mb", "operator": ">=", "value": 1024}
        baseline = {"name": "all", "selection": "driver=fake-hardware", "expected": [rule]}
        fleet.http.post(f"{fleet.url}/v1/baselines", json=baseline, timeout=10).raise_for_status()
        quota = {"project": "blue", "node_limit": 7}
        fleet.http.post(f"{fleet.url}/v1/quotas", json=quota, timeout=10).raise_for_status()
        steps = sum(
            len(operation["steps"]) for node in nodes for operation in fleet.operations(node)
        )
        expected = {
            'ingot_operation_seconds_count{kind="manage",outcome="succeeded"}': 3,
            'ingot_operation_seconds_count{kind="provide",outcome="succeeded"}': 3,
            'ingot_operation_seconds_count{kind="active",outcome="succeeded"}': 3,
            "ingot_claims_total": steps,
            "ingot_step_seconds_count": steps,
            'count{method="PUT",route="/v1/nodes/<ident>/states/provision"': 9,
        }
        until_counted(port, expected)

        queries = {
            target["expr"].replace("$__rate_interval", "5m")
            for panel in DASHBOARD["panels"]
            for target in panel.get("targets", ())
        }
        assert len(queries) > len(METRICS)
        for query in queries:
            if QUIET.search(query):
                ask(prometheus, query)
            else:
                until(lambda query=query: ask(prometheus, query), query)
        until(lambda: ["3"] == values(ask(prometheus, "sum(ingot_nodes)")), "3 nodes")
        sensors = f"http://127.0.0.1:{port}/metrics/sensors"
        until(
            lambda: 6 == requests.get(sensors, timeout=10).text.count("ingot_sensor_health{"),
            "two sensors of each node",
        )
        until(lambda: {"ok"} == set(healths(prometheus)), "an evaluation of each rule")
        assert not ask(prometheus, 'ALERTS{severity="critical"}')

        before = read(port)
        pids = fleet.pids()
        for pid in (fleet.conductor(1), fleet.conductor(2), *pids["exporter"]):
            os.kill(pid, signal.SIGKILL)
        until(lambda: fleet.pids().get("exporter") not in ([], None, pids["exporter"]), "exporter")
        until(lambda: 2 == len(set(fleet.pids()["conductors"].values())
                               - set(pids["conductors"].values())), "conductors")  # fmt: skip
        files = {path.name for path in (fleet.data / "metrics").glob("*/*.db")}
        fleet.provision(nodes, "deleted")
        fleet.await_state(nodes, "available")
        until(lambda: answered(port), "the new exporter")
        until_counted(
            port, {'ingot_operation_seconds_count{kind="deleted",outcome="succeeded"}': 3}
        )
        after = read(port)
        assert [] == [
            text
            for text, value in before.items()
            if text.split("{")[0].endswith(("_total", "_count")) and after.get(text, 0) < value
        ]
        assert files == {path.name for path in (fleet.data / "metrics").glob("*/*.db")}
        assert 404 == requests.get(f"http://127.0.0.1:{port}/", timeout=10).status_code


def test_roles_that_run_alone_have_exporters_that_end_with_them(tmp_path):
    """A service without metrics has no exporter; a second beat and an API beside it have."""
    with Fleet(tmp_path, conductors=1) as fleet:
        assert "exporter" not in fleet.pids()
        assert not (fleet.data / "metrics").exists()
        fleet.create_nodes(2)
        beat, api, listener = free_ports(3)
        database = fleet.data / "ingot.db"
        shared = {
            **fleet.environ,
            "INGOT_DATABASE_CONNECTION": f"sqlite:///{database}",
            "INGOT_BROKER_URL": f"redis+socket://{fleet.data / 'redis.sock'}",
            "INGOT_DATA_DIR": str(tmp_path / "alone"),
            "INGOT_DATABASE_SECRETS_KEY_FILE": next(
                (str(path) for path in Path(tmp_path).glob("*.key")), ""
            ),
        }
        with (
            alone("beat", {**shared, "INGOT_METRICS_PORT": str(beat)}) as process,
            alone(
                "api", {**shared, "INGOT_METRICS_PORT": str(api), "INGOT_API_PORT": str(listener)}
            ),
        ):
            until(lambda: answered(beat), "the exporter of the beat")
            until_counted(beat, {
                'ingot_nodes{provision_state="enroll"}': 2, 'ingot_conductors{state="alive"}': 1,
            })  # fmt: skip
            url = f"http://127.0.0.1:{listener}/v1/nodes"
            until(lambda: answered(api) is not None and listens(url), "the API")
            route = 'ingot_api_request_seconds_count{method="GET",route="/v1/nodes",status="2xx"}'
            until(lambda: (answered(api) or {}).get(route), "a request")
            assert [] == [text for text in answered(api) if text.startswith("ingot_nodes")]
            process.kill()
            process.wait()
            until(lambda: answered(beat) is None, "the end of the exporter")


@contextmanager
def alone(role, environ):
    """Run a role without a supervisor."""
    with open(os.devnull, "w") as nothing:
        process = programs.start("workers.cli:main", argv=[role], environ=environ, stderr=nothing)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)


def answered(port):
    """Samples of an exporter; None if it does not answer."""
    try:
        return read(port)
    except requests.ConnectionError:
        return None


def listens(url):
    try:
        return requests.get(url, timeout=10).ok
    except requests.ConnectionError:
        return False
