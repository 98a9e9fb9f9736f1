"""A conductor without a path to its BMCs, and machines that are away."""

import pytest
from celery import Celery
from sqlalchemy import select

from app.errors import Unavailable
from app.models import Conductor, Node
from drivers.core.errors import HardwareError, Unreachable
from drivers.fake.hardware import FakeManagement, FakePower
from tests.support.fleet import until
from tests.support.inside import AlwaysGiven
from tests.support.ports import free_port
from tests.support.redis import breakers
from workers.conductor.rpc_server import CallHandler
from workers.periodic import bmc_network, control_tasks
from workers.periodic.bmc_network import FEWEST, BmcNetwork

pytestmark = pytest.mark.parametrize("database", ["sqlite"], indirect=True)
TASK = "ingot.power_sync"


class Calls:
    """Calls to a neighbour in this process; `nodes` has the nodes."""

    def __init__(self, handler):
        self.handler, self.nodes, self.is_away = handler, [], False

    def post(self, _conductor, _key, document, seconds):
        if self.is_away:
            raise Unavailable("the broker is out of reach")
        self.nodes.append(document["node"])
        self.answer = self.handler.answer(document, seconds)

    def receive(self, _key, _seconds):
        return self.answer


class Site:
    """Conductor c-1, whose power syncs run here, and its neighbour c-2."""

    def __init__(self, inside, redis_client, redis_url, monkeypatch):
        self.inside, self.monkeypatch, self.reports = inside, monkeypatch, []
        for name in ("c-1", "c-2"):
            inside.conductor(name)
        self.runtime = inside.runtime
        self.runtime.calls = Calls(CallHandler(inside.another().runtime, "c-2", AlwaysGiven()))
        # all nodes are those of c-1, also for power syncs
        monkeypatch.setattr("workers.periodic.bmc_sweep.is_owner", lambda *_: True)
        monkeypatch.setattr(control_tasks, "_spaced", lambda _seconds, work: work)
        monkeypatch.setattr(bmc_network, "RETRY", 0.01)
        application = Celery(set_as_current=False)
        application.breakers = breakers(redis_url)
        network = BmcNetwork(self.runtime, "c-1", self.reports.append)
        control_tasks.register_tasks(application, self.runtime, "c-1", redis_client, network)
        self.sync = application.tasks[TASK]

    def reads(self, kind, result):
        """Let all reads of a kind of interface have a result, or raise it."""

        def read(*_):
            if isinstance(result, Exception):
                raise result
            return result

        name = "get_power_state" if kind is FakePower else "get_boot_device"
        self.monkeypatch.setattr(kind, name, read)


@pytest.fixture
def site(inside, redis_client, redis_url, monkeypatch):
    site = Site(inside, redis_client, redis_url, monkeypatch)
    for _ in range(FEWEST):
        inside.node("available", power_state="power off")
    site.reads(FakePower, Unreachable("no answer"))
    yield site
    site.reads(FakePower, "power off")  # ends the thread that waits for the return


@pytest.mark.parametrize("answer", [{"boot_device": None}, HardwareError("it is busy")])
def test_a_conductor_that_alone_reaches_no_bmc_reports_it_until_it_does(site, answer):
    site.reads(FakeManagement, answer)
    site.sync()
    assert [f"it reaches none of {FEWEST} BMCs, and conductor c-2 does"] == site.reports
    site.reads(FakePower, "power off")
    until(lambda: site.reports[1:] == [None], "the return")


def test_machines_that_nobody_reaches_are_handed_over_to_nobody(site):
    site.reads(FakeManagement, Unreachable("no answer"))
    site.sync()
    assert bmc_network.SAMPLE == len(site.runtime.calls.nodes)
    assert [] == site.reports


def test_one_bmc_that_answers_is_proof_enough(site):
    results = [Unreachable("no answer")] * FEWEST + ["power off"]

    def read(*_):
        result = results.pop()
        if isinstance(result, Exception):
            raise result
        return result

    site.monkeypatch.setattr(FakePower, "get_power_state", read)
    site.inside.node("available", power_state="power off")
    site.sync()
    assert ([], []) == (site.runtime.calls.nodes, site.reports)


def test_few_bmcs_raise_no_suspicion(site, monkeypatch):
    monkeypatch.setattr(bmc_network, "FEWEST", FEWEST + 1)
    site.sync()
    assert ([], []) == (site.runtime.calls.nodes, site.reports)


@pytest.mark.parametrize(
    "columns", [{"conductor_group": "far"}, {"impediment": "it has no broker"}, {"online": False}]
)
def test_without_a_neighbour_that_serves_the_nodes_nothing_is_handed_over(site, columns):
    site.inside.change(Conductor, "c-2", **columns)
    site.runtime.cache.pop("members", None)
    site.sync()
    assert ([], []) == (site.runtime.calls.nodes, site.reports)


def test_while_the_broker_is_away_nothing_is_known(site):
    site.runtime.calls.is_away = True
    site.sync()
    assert [] == site.reports


def test_a_redfish_bmc_that_refuses_connections_counts_as_unreachable(site):
    address = {"redfish_address": f"http://127.0.0.1:{free_port()}", "redfish_system_id": "/s/1"}
    with site.runtime.reading() as session:
        nodes = session.scalars(select(Node.id)).all()
    for node in nodes:
        site.inside.change(Node, node, driver="redfish", driver_info=address)
    site.sync()
    assert bmc_network.SAMPLE == len(site.runtime.calls.nodes)
    assert [] == site.reports, "the neighbour reaches it neither"
