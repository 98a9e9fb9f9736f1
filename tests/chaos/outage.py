"""A fleet during an outage of Redis or the database, and checks of its behaviour."""

import os
import time
from contextlib import contextmanager

import requests

from tests.support.fleet import until
from tests.support.processes import children

#: Seconds of an outage; longer ones have the same effect.
OUTAGE = float(os.environ.get("OUTAGE_SECONDS", "2"))
#: Most seconds of a request while a server is out of reach.
PROMPT = 8.0
#: Message of a request whose connection to the database has ended.
ENDED = "The database is out of reach"
#: Most log lines per second of an outage, of all processes, on average.
CHATTER = 12
SETTINGS = {
    # a process that a busy machine does not run for seconds is not dead
    "INGOT_CONDUCTOR_HEARTBEAT_TIMEOUT": "15",
    "INGOT_BROKER_CONNECT_TIMEOUT": "1",
    "INGOT_DATABASE_CONNECT_TIMEOUT": "1",
    "INGOT_DATABASE_STATEMENT_TIMEOUT": "2",
    "INGOT_DATABASE_BUSY_TIMEOUT": "1",
    "INGOT_FAKE_VENDOR_DELAY": "0.1,0.4",
    "INGOT_FAKE_DEPLOY_DELAY": "0.1,0.4",
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "2",
}
NODES = 6
#: Most threads and files that the pools of a fleet add on a busy machine in all its outages.
POOLS = (40, 100)


def threads_and_files(fleet):
    """Threads and open files of all processes of the service."""
    pids = fleet.pids()
    roots = [*pids["api"], *pids["conductors"].values(), *pids["beat"]]
    everyone = [*roots, *(child for pid in roots for child in children(pid))]
    return (
        sum(len(os.listdir(f"/proc/{pid}/task")) for pid in everyone),
        sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in everyone),
    )


def ask(fleet, method, path, **options):
    """Return the response and its seconds."""
    began = time.monotonic()
    headers = {"X-OpenStack-Ironic-API-Version": "1.96"}
    url = f"{fleet.url}/v1/{path}"
    answer = requests.request(method, url, headers=headers, timeout=60, **options)
    return answer, time.monotonic() - began


def put(fleet, node, verb):
    return ask(fleet, "PUT", f"nodes/{node}/states/provision", json={"target": verb})


def answers(fleet):
    """Whether every process of the API answers: each may have to reconnect by itself."""
    ours = fleet.http.get(f"{fleet.url}/v1/nodes", timeout=60)
    other_answers = [ask(fleet, "GET", "nodes")[0] for _ in range(8)]
    return {200} == {answer.status_code for answer in (ours, *other_answers)}


def assert_please_retry(answer):
    assert 503 == answer.status_code, answer.text
    assert 0 < int(answer.headers["Retry-After"]) <= 10
    assert "faultstring" in answer.json()["error_message"]


class Outage:
    """An outage of a fleet: half of its nodes get a request before it, the other half during it."""

    def __init__(self, fleet):
        self.fleet, self.later = fleet, []
        until(lambda: answers(self.fleet), "an answer of every process")
        states = fleet.states()
        self.nodes = sorted(states)
        fleet.provision([node for node in self.nodes if states[node] != "manageable"], "manage")
        fleet.await_state(self.nodes, "manageable")

    @contextmanager
    def watched(self):
        """Check that the processes live on, log little, and leak no thread and no connection."""
        pids, first_counts = self.fleet.pids(), self.fleet.at_rest
        began, lines = time.monotonic(), len(self.fleet.text())
        text = len(self.fleet.text().splitlines())
        yield
        until(
            lambda: self._as_many(first_counts),
            f"as few threads and files as {first_counts}",
            between=0.5,
        )
        seconds = time.monotonic() - began
        assert pids == self.fleet.pids(), "a process died"
        log = self.fleet.text()[lines:]
        assert "Traceback" not in log, log[log.index("Traceback") - 300 :][:3000]
        events = len(self.fleet.text().splitlines()) - text
        steps = log.count("step.acted") + log.count("operation.ended")
        assert events - steps < CHATTER * (seconds + 5), f"{events} lines in {seconds:.0f} s"

    def _as_many(self, first_counts):
        now = threads_and_files(self.fleet)
        print(f"threads and files before and after: {first_counts}, {now}")
        return all(
            few <= many + allowance
            for few, many, allowance in zip(now, first_counts, POOLS, strict=True)
        )

    def clean(self, begin, end, meanwhile):
        """
        Clean all nodes during an outage, and make them manageable again.

        Returns the seconds from its end until all were clean.
        """
        half = len(self.nodes) // 2
        first_counts = self.operations()
        with self.watched():
            self.fleet.provision(self.nodes[:half], "provide")
            began = time.monotonic()
            begin()
            try:
                meanwhile(self.nodes[half:])
                time.sleep(max(0, OUTAGE - (time.monotonic() - began)))
            finally:
                end()
            back = time.monotonic()
            for node in self.later:
                until(
                    lambda node=node: put(self.fleet, node, "provide")[0].status_code == 202, "yes"
                )
            until(lambda: answers(self.fleet), "an answer of every process")
            self.fleet.await_state(self.nodes, "available")
            took = time.monotonic() - back
            print(f"all nodes are clean {took:.1f} s after the outage")
            assert [many + 1 for many in first_counts] == self.operations(), (
                "a request was lost or repeated"
            )
            for node in self.nodes:
                operation = self.fleet.operation(node, "provide")
                assert "succeeded" == operation["state"]
                assert 0 == operation["refused"]
                assert [0] * 3 == [step["deaths"] for step in operation["steps"]]
            self.fleet.provision(self.nodes, "manage")
            self.fleet.await_state(self.nodes, "manageable")
        return took

    def operations(self):
        """Number of operations that each node has had."""
        pages = (self.fleet.get(f"nodes/{node}/operations") for node in self.nodes)
        return [len(page["operations"]) for page in pages]

    def accepted(self, nodes):
        """Verbs are accepted promptly; requests that need a conductor's answer get 503."""
        for node in nodes:
            answer, seconds = put(self.fleet, node, "provide")
            assert 202 == answer.status_code, answer.text
            assert seconds < PROMPT
        answer, seconds = ask(
            self.fleet, "GET", f"nodes/{nodes[0]}/management/boot_device/supported"
        )
        assert_please_retry(answer)
        assert seconds < PROMPT
        answer, seconds = ask(self.fleet, "GET", "nodes")
        assert (200, True) == (answer.status_code, seconds < PROMPT)

    def refused(self, nodes, message):
        """
        Requests that write get 503 promptly; `clean` repeats them after the outage.

        A request whose pooled connection has ended has the message of that; the next has `message`.
        """
        self.later = nodes
        for node in nodes:
            until(lambda node=node: self._is_refused(node, message), message, PROMPT)

    def _is_refused(self, node, message):
        answer, seconds = put(self.fleet, node, "provide")
        assert_please_retry(answer)
        assert seconds < PROMPT
        assert message in answer.text or ENDED in answer.text
        return message in answer.text


def ready(fleet):
    nodes = fleet.create_nodes(NODES)
    fleet.provision(nodes, "manage")
    fleet.await_state(nodes, "manageable")
    fleet.at_rest = threads_and_files(fleet)
    return fleet
