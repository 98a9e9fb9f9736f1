"""Answers of agents and BMCs: any answer leaves a conductor its threads and memory."""

import base64
import json
import time
from contextlib import suppress

import pytest

from drivers.agent import client, in_band, logs
from drivers.core.errors import HardwareError, Unexpected, Unreachable
from drivers.core.steps import Done, Flow
from drivers.net import answers, networks
from drivers.redfish import bios
from drivers.redfish.transport import client as redfish
from tests.security.hostile import (
    flood,
    no_thread_left,
    peak_memory,
    raw_server,
    recording,
    redirecting_to,
    slow_headers,
    trickle,
    with_body,
)
from tests.unit.drivers.documents import sweep_of
from tests.unit.drivers.machines import OPTIONS, target

from .conftest import BOMB, COMMAND, JSON, SYSTEM, node, options, polled, power_of, swept

#: A system with a link that requests cannot follow.
SECURE_BOOT_ELSEWHERE = (
    b'{"Id": "1", "RedfishVersion": "1.6.0", "PowerState": "On", "SecureBoot": {"@odata.id": "%s"}}'
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
READERS = {
    "agent": lambda url, seconds=5.0: client.commands(node(url, seconds)),
    "poller": polled,
    "sushy": power_of,
    "sweep": swept,
}
each_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("agent", "compressed"), ("poller", "compressed"),
        # a BMC may compress its documents, within the limit of their size
        ("sushy", "more than 4 MiB"), ("sweep", "more than 4 MiB"),
    ],
)  # fmt: skip
def test_a_compressed_answer_is_not_unpacked(name, words):
    read = READERS[name]
    with recording(
        with_body(b"{}", Content_Type=JSON)
    ) as server:  # modules that are imported at the first use need memory, too
        with suppress(HardwareError):
            read(server.url)
        assert all(headers["Accept-Encoding"] == "identity" for _, headers in server.request_log)
    earlier_peak = peak_memory()
    bomb = recording(with_body(BOMB, Content_Encoding="gzip", Content_Type=JSON))
    with bomb as server, pytest.raises(Unexpected, match=words):
        read(server.url)
    assert peak_memory() - earlier_peak < 40


@each_reader
def test_an_answer_without_end_is_read_up_to_a_limit(read):
    with recording(with_body(b"{}", Content_Type=JSON)) as server, pytest.raises(HardwareError):
        read(server.url)
    earlier_peak = peak_memory()
    endless = raw_server(flood(HEAD, b" " * 65536))
    with endless as url, pytest.raises(HardwareError, match=r"more than (4|16) MiB"):
        read(url)
    assert peak_memory() - earlier_peak < 60


@each_reader
def test_a_document_of_many_short_values_is_not_parsed(read):
    body = b"[" + b"{}," * 300_000 + b"{}]"
    many = pytest.raises(HardwareError, match="more than 200000 values")
    with recording(with_body(body, Content_Type=JSON)) as server, many:
        read(server.url)


@pytest.mark.parametrize("talk", [slow_headers, trickle(HEAD, b" ")], ids=["headers", "body"])
@pytest.mark.parametrize("name", ["agent", "sushy"])
def test_an_answer_that_trickles_in_holds_a_thread_for_a_limited_time(name, talk):
    with raw_server(talk) as url, no_thread_left():
        began = time.monotonic()
        with pytest.raises(Unreachable, match=r"within 0\.9 s"):
            READERS[name](url, 0.3)
    assert time.monotonic() - began < 15  # the answer takes 20 s


@each_reader
def test_a_redirect_to_another_server_is_not_followed(read):
    with recording(with_body(b"{}")) as internal:
        with recording(redirecting_to(f"{internal.url}/internal/admin?do=1")) as server:
            with pytest.raises(HardwareError):
                read(server.url)
            assert server.request_log
        assert [] == internal.request_log


@pytest.mark.parametrize("link", ["{other}/redfish/v1/Systems/1/Bios", "//{host}/x",
                                  "@{host}/redfish/v1", ":80@{host}/x", "ftp://{host}/x"])  # fmt: skip
@pytest.mark.parametrize("name", ["sushy", "sweep"])
def test_a_link_of_a_bmc_to_another_server_is_not_followed(name, link):
    with recording(with_body(b"{}", Content_Type=JSON)) as other:
        link = link.format(other=other.url, host=other.url.removeprefix("http://"))
        system = {
            "@odata.id": link,
            "Id": "1",
            "PowerState": "On",
            "SecureBoot": {"@odata.id": link},
        }
        root = {
            "Id": "RootService", "RedfishVersion": "1.15.0", "Systems": {"@odata.id": link},
            "Members": [{"@odata.id": link}], "Registries": {"@odata.id": link}, **system,
        }  # fmt: skip
        with recording(with_body(json.dumps(root).encode(), Content_Type=JSON)) as bmc:
            it = node(bmc.url)
            if name == "sweep":
                assert "power on" == sweep_of(it, secure_boot=True)
                without = {**it.driver_info, "redfish_system_id": None}
                outcome = sweep_of(target("redfish", driver_info=without, options=options()))
                assert isinstance(outcome, Unexpected), outcome
                assert "sent a link" in str(outcome)
            else:
                for read in (
                    it.driver.management.get_boot_mode,
                    it.driver.management.get_secure_boot,
                ):
                    with suppress(HardwareError):
                        read(it)
        assert [] == other.request_log


@pytest.mark.parametrize("is_redirected", [True, False])
def test_a_session_with_a_machine_sends_nothing_to_another_server(is_redirected):
    with recording(with_body(b"{}")) as other, recording(redirecting_to(other.url)) as machine:
        reach = networks.of_agents(node(machine.url).options)
        adapter = answers.MachineAdapter(machine.url, "the machine", reach)
        url = machine.url if is_redirected else other.url
        with (
            answers.session(adapter) as session,
            pytest.raises(Unexpected, match="a link to another"),
        ):
            session.get(url, timeout=5)
        assert [] == other.request_log


@pytest.mark.parametrize(("number", "answered"), [(5, True), (1000, False)])
@each_reader
def test_interim_answers_are_skipped_up_to_a_number(read, number, answered):
    """
    The libraries skip any number of them: a machine would keep a thread busy, or the event loop
    that polls all machines.
    """
    body = json.dumps({**SYSTEM, **COMMAND, "commands": [COMMAND]}).encode()
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" * number
    whole = interim + HEAD[:-2] + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with raw_server(lambda connection: connection.sendall(whole)) as url:
        if answered:
            assert read(url)
        else:
            with pytest.raises(Unreachable, match="ConnectionError"):
                read(url)


def links_to(*paths):
    return [{"@odata.id": path} for path in paths]


@pytest.fixture
def large():
    """A BMC whose system has 300 storage controllers, of 10 KB each."""
    path = "/redfish/v1/Systems/1"
    many = {"Name": "s", "Members": links_to(*(f"{path}/Storage/{n}" for n in range(300)))}
    root = {
        "Id": "RootService", "RedfishVersion": "1.15.0", "Name": "r",
        "Systems": {"@odata.id": "/redfish/v1/Systems"},
    }  # fmt: skip
    system = {
        "Id": "1",
        "Name": "s",
        "PowerState": "On",
        "Storage": {"@odata.id": f"{path}/Storage"},
    }
    documents = {"/redfish/v1/": root, path: system, f"{path}/Storage": many}
    one = {"Id": "1", "Name": "s", "Drives": [], "Description": "x" * 10_000}

    def reply(handler):
        handler.answer(200, documents.get(handler.path, one))

    with recording(reply) as server:
        yield server


@pytest.mark.parametrize(
    ("limit", "least", "error", "words"),
    [
        ("REQUESTS", 50, Unexpected, "more than 50 documents"),
        ("BYTES", 1 << 20, Unexpected, "more than 1 MiB"),
        ("SECONDS", 0.05, Unreachable, r"within 0\.05 s"),
    ],
)
def test_a_bmc_does_not_choose_how_many_documents_a_command_reads(
    large, monkeypatch, limit, least, error, words
):
    it = node(large.url)
    it.driver.management.indicators(it)
    assert 300 < len(large.request_log)

    large.request_log.clear()
    monkeypatch.setattr(answers.Budget, limit, least)
    with pytest.raises(error, match=words):
        it.driver.management.indicators(it)
    assert 300 > len(large.request_log)
    monkeypatch.undo()
    assert "power on" == it.driver.power.get_power_state(it), "the next command has its own limits"


def test_an_answer_after_the_end_of_the_command_names_the_limit_of_the_command(monkeypatch):
    monkeypatch.setattr(answers.Budget, "SECONDS", 0.4)
    late = r"did not answer a command within 0\.4 s$"
    with recording(lambda _handler: time.sleep(1)) as server:
        it = node(server.url)
        with pytest.raises(Unreachable, match=late):
            it.driver.power.get_power_state(it)


@pytest.mark.parametrize(
    "body", [b"<html>", SECURE_BOOT_ELSEWHERE % b"//h/x", SECURE_BOOT_ELSEWHERE % b"x://y"]
)
def test_an_answer_that_is_no_document_is_no_fault_of_the_settings(body):
    """These exceptions of requests are OSErrors, as those about a file of certificates."""
    with recording(with_body(body, Content_Type=JSON)) as server:
        it = node(server.url)
        with pytest.raises(Unexpected):
            it.driver.management.get_secure_boot(it)


def test_a_bmc_has_a_limited_number_of_bios_settings(monkeypatch):
    """Each is a row."""
    settings = {f"S{n}": "a" for n in range(30)}
    document = {**SYSTEM, "Bios": {"@odata.id": "/redfish/v1/B"}, "Attributes": settings}
    monkeypatch.setattr(bios, "MOST", 20)
    with recording(with_body(json.dumps(document).encode(), Content_Type=JSON)) as server:
        it = node(server.url, interfaces={"deploy": "direct", "bios": "redfish"})
        assert Done() == it.driver.bios.cache_bios_settings(it)
    assert 20 == len(it.reports["bios_settings"])


def test_a_message_registry_is_read_from_the_bmc_only():
    """sushy fetches a registry from the URL that a BMC names for its publication."""
    with recording(with_body(b"{}", Content_Type=JSON)) as internal:
        file = {"Id": "R", "Name": "R", "Languages": ["en"], "Registry": "R.1.0",
                "Location": [{"Language": "en", "PublicationUri": f"{internal.url}/metadata"}]}  # fmt: skip
        root = {"Id": "RootService", "RedfishVersion": "1.15.0", "Name": "R",
                "Registries": {"@odata.id": "/redfish/v1/Registries"}}  # fmt: skip
        documents = {
            "/redfish/v1/": root,
            "/redfish/v1/Registries": {"Name": "R", "Members": [{"@odata.id": "/redfish/v1/R"}]},
            "/redfish/v1/R": file,
        }

        def reply(handler):
            handler.answer(200, documents.get(handler.path, {}))

        with recording(reply) as bmc:
            it = node(bmc.url)
            with redfish.turn(it, it.driver.power.bmcs) as connection:
                assert "R.1.0" not in dict(connection.open().registries)
            assert "/redfish/v1/R" in [path for path, _ in bmc.request_log]
        assert [] == internal.request_log


@pytest.mark.parametrize("name", ["sushy", "sweep"])
def test_a_zip_archive_of_a_bmc_is_not_unpacked(name):
    """sushy would unpack an archive of any size."""
    archive = recording(with_body(b"PK", Content_Type="Application/zip; x=y"))
    with archive as server, pytest.raises(Unexpected, match="zip archive"):
        READERS[name](server.url)


def test_kept_logs_of_agents_have_a_largest_size(agent, tmp_path):
    archive = bytes(400 << 10)
    agent.answers["log.collect_system_logs"] = {"system_logs": base64.b64encode(archive).decode()}
    changes = {"agent": {**OPTIONS["agent"], "deploy_logs_local_path": str(tmp_path),
                        "deploy_logs_max_size": 1}}  # fmt: skip
    it = target(interfaces={"deploy": "direct"}, options={**OPTIONS, **changes}, agent=agent.seen())
    kept_paths = [logs.keep(it).result["logs"] for _ in range(5)]
    assert kept_paths[-2:] == sorted(str(path) for path in tmp_path.iterdir())


def listing(steps, version):
    result = {"clean_steps": steps, "hardware_manager_version": version}
    return {"id": "c1", "command_name": "get_clean_steps", "command_status": "SUCCEEDED",
            "command_error": None, "command_params": {}, "command_result": result}  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "version"),
    [
        ([{"interface": "deploy", "step": f"s{n}", "priority": 1} for n in range(513)], {}),
        ([{"interface": "deploy", "step": "s", "priority": 1, "argsinfo": {"a": "x" * 300_000}}], {}),
        ([], {"manager": "x" * 300_000}),
    ],
)  # fmt: skip
def test_an_agent_lists_a_limited_number_of_steps(steps, version):
    """The node's row has them, and its operation a row for each."""
    document = json.dumps(listing({"manager": steps}, version)).encode()
    with recording(with_body(document, Content_Type=JSON)) as server:
        it = node(server.url)
        with pytest.raises(Unexpected, match=r"at most 512 are read, with 256 KiB"):
            in_band.collect(it, Flow.CLEAN)
    assert "agent_steps" not in it.reports


@pytest.mark.parametrize(("size", "is_kept"), [(60_000, True), (70_000, False)])
def test_long_results_of_an_agent_are_not_recorded(size, is_kept):
    """An answer about an operation has the results of all its steps."""
    step_ = {"interface": "deploy", "step": "erase_devices", "priority": 10}
    result = {"clean_result": "x" * size, "clean_step": step_}
    document = {**COMMAND, "command_result": result}
    with recording(with_body(json.dumps(document).encode(), Content_Type=JSON)) as server:
        outcome = in_band.execute(node(server.url), Flow.CLEAN, step_)
    assert ("x" * size if is_kept else f"{size + 2} bytes, not kept") == outcome.result["result"]


@pytest.mark.parametrize("text", [r"\ud800", "NaN", "1e999"])
def test_values_that_no_database_stores_are_no_document(text):
    body = b'{"commands": [{"a": %s}]}' % (text if text[0] != "\\" else f'"{text}"').encode()
    malformed = pytest.raises(Unexpected, match="did not send a JSON document")
    with recording(with_body(body, Content_Type=JSON)) as server, malformed:
        client.commands(node(server.url))


def test_nul_is_removed_from_answers_of_agents():
    body = rb'{"commands": [{"a": "b\u0000c\\u0000"}]}'
    with recording(with_body(body, Content_Type=JSON)) as server:
        assert [{"a": r"bc\u0000"}] == client.commands(node(server.url))
