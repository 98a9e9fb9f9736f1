"""TLS trust: values and files of operators, certificates of agents; no read blocks."""

import os
import ssl
import threading
from dataclasses import replace

import pytest

from drivers.agent import client
from drivers.core.errors import InvalidDriverInfo, Unreachable
from drivers.net import tls
from drivers.redfish import sweep
from drivers.redfish.transport import client as redfish
from tests.support.certificates import OTHER_PEM, PEM
from tests.unit.drivers.machines import target, with_option


@pytest.fixture
def fifo(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    return str(tmp_path / "fifo")


def in_time(work):
    """Return the error of `work`, which must not block on a FIFO without a writer."""
    raised = []

    def run():
        try:
            work()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it hangs"
    return raised[0]


def used(value):
    with tls.bundle(value):
        raise AssertionError("the certificate was accepted")


@pytest.mark.parametrize("path", ["{fifo}", "/dev/zero", "/proc/version", "/none", "/a\0b", "{}/"])
def test_a_path_that_is_no_regular_file_is_refused_at_once(fifo, tmp_path, path):
    path = path.format(tmp_path, fifo=fifo)
    for work in (lambda: used(path), lambda: tls.context(path)):
        assert isinstance(in_time(work), InvalidDriverInfo)


def test_a_bmcs_authorities_are_a_regular_file(fifo):
    it = target(
        interfaces={"power": "redfish"},
        driver_info={"redfish_address": "https://127.0.0.1:1", "redfish_verify_ca": fifo},
    )
    connection = redfish.Connection(redfish.access(it))
    for work in (connection.open, lambda: sweep._tls(fifo)):
        refused = in_time(work)
        assert isinstance(refused, InvalidDriverInfo)
        assert "redfish_verify_ca" in str(refused)


@pytest.mark.parametrize("recorded", ["{fifo}", "False", "no", "/etc/hostname"])
def test_a_recorded_value_that_is_no_certificate_is_ignored(fifo, monkeypatch, recorded):
    """An earlier release recorded it without a check."""
    values = []

    def bundle(value):
        values.append(value)
        return tls.bundle(value)

    monkeypatch.setattr(client, "bundle", bundle)
    it = target(options=with_option("agent", verify_ca="True", max_command_attempts=1))
    agent = replace(it.agent, url="https://127.0.0.1:1", verify_ca=recorded.format(fifo=fifo))
    for driver_info, believed in (({}, "True"), ({"agent_verify_ca": OTHER_PEM}, OTHER_PEM)):
        node = replace(it, agent=agent, driver_info=driver_info)
        assert isinstance(in_time(lambda node=node: client.commands(node)), Unreachable)
        assert believed == values.pop()
    node = replace(it, agent=replace(agent, verify_ca=PEM))
    assert isinstance(in_time(lambda: client.commands(node)), Unreachable)
    assert [PEM] == values


def test_operators_give_booleans_files_and_certificates(tmp_path):
    (tmp_path / "ca.pem").write_text(PEM)
    for value in (str(tmp_path / "ca.pem"), PEM):
        with tls.bundle(value) as path:
            assert 1 == len(_certificates(path))
        assert 1 == len(tls.context(value).get_ca_certs())
    for word, meaning in (("True", True), ("no", False), (False, False)):
        with tls.bundle(word) as verify:
            assert meaning is verify
        assert meaning is tls.context(word)


def _certificates(path):
    loaded = ssl.create_default_context(cafile=path)
    return loaded.get_ca_certs()
