"""A conductor that sends heartbeats and does no work: its neighbour does it, and says why."""

import os
import signal

import pytest

from tests.chaos.test_black_holes import Proxy
from tests.e2e.test_lost_paths import (
    alive,
    await_power_on,
    conductor,
    nodes_of,
    paths,
    power_on,
    site_of,
)
from tests.support import processes, rabbitmq
from tests.support.fleet import until

__all__ = ["paths"]  # a fixture

ROLES = [conductor("near"), conductor("far"), ("first", "beat")]


def impediment(site, name):
    conductors = {
        conductor["hostname"]: conductor
        for conductor in site.request("GET", "service").json()["conductors"]
    }
    return conductors[name]["impediment"]


def test_a_conductor_whose_control_process_is_stopped_takes_no_new_work(tmp_path, paths):
    with site_of(tmp_path, paths, *ROLES) as (site, running):
        (control,) = processes.children(running["far"].pid)
        nodes = nodes_of(site, 6)
        os.kill(control, signal.SIGSTOP)
        try:
            until(lambda: {"near"} == alive(site), "the impediment")
            assert "its control process has taken no message" in impediment(site, "far")
            reasons = site.http.get(f"{site.base}/healthcheck?detailed=true").json()["reasons"]
            assert "1 impeded" in {reason["reason"] for reason in reasons}
            power_on(site, nodes)
            await_power_on(site, nodes)
        finally:
            os.kill(control, signal.SIGCONT)
        until(lambda: {"near", "far"} == alive(site), "the return")
        assert "conductor.able" in site.text()


def test_a_conductor_whose_threads_all_hang_hands_over_what_it_has_not_begun(
    tmp_path, paths, monkeypatch
):
    monkeypatch.setenv("INGOT_CONDUCTOR_WORKERS_POOL_SIZE", "1")
    monkeypatch.setenv("INGOT_CONDUCTOR_STEP_TIMEOUT", "2")
    monkeypatch.setenv("INGOT_KILL_POINTS", "far:claimed=pause-600")
    with site_of(tmp_path, paths, *ROLES) as (site, _):
        nodes = nodes_of(site, 12)
        power_on(site, nodes)
        await_power_on(site, nodes)
        until(lambda: {"near"} == alive(site), "the impediment")
        assert "all 1 threads are in steps that exceed" in impediment(site, "far")


@pytest.mark.slow
def test_a_conductor_that_has_lost_rabbitmq_alone_takes_no_new_work(tmp_path, paths):
    (tmp_path / "rabbit").mkdir()
    with (
        rabbitmq.serving(tmp_path / "rabbit") as server,
        Proxy(tmp_path, server.port) as proxy,
    ):
        through = {"near": server.port, "far": proxy.port, "first": server.port}
        roles = []
        for name, role, *words in ROLES:
            config = tmp_path / f"{name}.toml"
            url = f"amqp://guest:guest@127.0.0.1:{through[name]}//"
            config.write_text(f'[broker]\nmessages_url = "{url}"\n')
            roles.append((name, role, "--config", str(config), *words))
        api = tmp_path / "near.toml"
        with site_of(tmp_path, paths, *roles, api=("--config", str(api))) as (site, _):
            nodes = nodes_of(site, 12)
            proxy.be("cut")
            power_on(site, nodes)
            await_power_on(site, nodes, 60.0)
            until(lambda: {"near"} == alive(site), "the impediment")
            assert "no thread has taken a message" in impediment(site, "far")
            proxy.be("whole")
            until(lambda: {"near", "far"} == alive(site), "the return")
