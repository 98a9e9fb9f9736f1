"""Requests of machines, which need no credential: they cost little, also in the log."""

import io
import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from werkzeug.test import create_environ

from app.agents import inspection_report
from app.api.request.parsing import MOST_VALUES
from app.api.transport import request_body
from app.api.transport.limits import Limits
from app.config.settings import Settings
from app.inspection import rules
from app.inspection.subject import Subject
from app.observe import log
from drivers.core.errors import InspectionFailed
from tests.support.certificates import PEM
from tests.support.fleet import until
from tests.support.log_output import logged

PATH = "/v1/continue_inspection"


def report(number, **fields):
    interfaces = [
        {"mac_address": f"52:54:00:{index >> 16:02x}:{index >> 8 & 255:02x}:{index & 255:02x}"}
        for index in range(number)
    ]
    return {"inventory": {"interfaces": interfaces}, **fields}


@pytest.fixture
def lines(monkeypatch):
    """The lines of the log, decoded."""
    with logged(monkeypatch, "json") as text:
        yield lambda: [json.loads(line) for line in text().splitlines()]


def test_a_report_with_very_many_interfaces_is_refused_before_they_are_loaded(api):
    began = time.process_time()
    answer = api("POST", PATH, report(12_000))
    assert 400 == answer.status_code
    assert "12000 interfaces are too many: at most 512" in answer.text
    assert time.process_time() - began < 0.5
    assert 404 == api("POST", PATH, report(512)).status_code


def test_a_large_report_is_refused_before_it_is_parsed_unless_a_node_is_inspected(api):
    large = report(1, logs="x" * (2 << 20), inventory=None)
    assert 404 == api("POST", PATH, large).status_code
    api.node(provision_state="inspect wait")
    assert 400 == api("POST", PATH, large).status_code


def test_a_report_of_very_many_values_is_refused_before_it_is_parsed(api):
    api.node(provision_state="inspect wait")
    body = json.dumps(report(1)).replace("}]", '}], "x": [' + "0, " * MOST_VALUES + "0]", 1)
    began = time.process_time()
    answer = api.client.post(PATH, data=body, content_type="application/json")
    assert 400 == answer.status_code
    assert f"too many values: at most {MOST_VALUES}" in answer.text
    assert time.process_time() - began < 0.5
    text = json.dumps(report(1, logs="x" * 3 * MOST_VALUES))
    assert 404 == api.client.post(PATH, data=text, content_type="application/json").status_code


def test_each_mebibyte_of_a_refused_report_counts_as_a_report():
    limits = Limits(Settings().api)
    statuses = []

    def refuse(_environ, start_response):
        start_response("404 NOT FOUND", [])
        return ()

    def send(length):
        environ = create_environ(PATH, method="POST") | {"CONTENT_LENGTH": str(length)}
        limits.middleware(refuse)(environ, lambda status, *_: statuses.append(int(status[:3])))

    for length in (16 << 20, 16 << 20, 16 << 20, 16 << 20, 100, 100):
        send(length)
    assert [404, 404, 404, 429, 404, 404] == statuses


def test_late_bodies_of_an_address_delay_no_other_address():
    arrived, answered = threading.Event(), threading.Event()

    class Late:
        def read(self, _length):
            arrived.wait(30)
            return b""

    def answer(environ, start_response):
        start_response("200 OK", [])
        if environ["REMOTE_ADDR"] == "192.0.2.2":
            answered.set()
        return ()

    application = request_body.middleware(30, lambda environ: environ["REMOTE_ADDR"], answer)

    def send(address, stream):
        variables = {"REMOTE_ADDR": address, "wsgi.input": stream, "CONTENT_LENGTH": "2"}
        application(create_environ(PATH, method="POST") | variables, lambda *_: None)

    with ThreadPoolExecutor(request_body.AT_ONCE + 20) as pool:
        late = [pool.submit(send, "192.0.2.1", Late()) for _ in range(request_body.AT_ONCE + 10)]
        try:
            until(lambda: any(future.done() for future in late), "refusals")
            pool.submit(send, "192.0.2.2", io.BytesIO(b"{}"))
            assert answered.wait(10)
            assert not all(future.done() for future in late)
        finally:
            arrived.set()


@pytest.mark.parametrize("op", ["matches", "contains"])
def test_a_machine_does_not_choose_how_long_a_regular_expression_runs(op):
    """It would run for hours, and no other thread of the conductor meanwhile."""
    args = {"value": "{inventory[system_vendor][product_name]}", "regex": ".*PowerEdge.*R640.*"}
    rule = {"conditions": [{"op": op, "args": args}], "actions": [{"op": "fail", "args": ["no"]}]}
    for name, message in (("PowerEdge " * 500, "5000 characters"), ("PowerEdge R640", "no")):
        inventory = {"system_vendor": {"product_name": name}}
        subject = Subject({"uuid": "1"}, [], [], inventory, {})
        with pytest.raises(InspectionFailed, match=message):
            rules.apply([rule], subject, "never")


def test_a_refused_report_writes_one_short_line(api, lines, monkeypatch):
    monkeypatch.setattr(inspection_report, "seldom", log.RateLimited(inspection_report.logger))
    for _ in range(5):
        assert 404 == api("POST", PATH, report(500)).status_code
    (line,) = [entry for entry in lines() if entry["event"] == "inspection.report_refused"]
    assert 500 == line["count"]
    assert len(line["macs"]) < 20


def test_a_line_of_the_log_has_a_largest_length(lines):
    hostile = {
        "text": "x" * 1_000_000,
        "many": ["52:54:00:00:00:01"] * 60_000,
        "deep": {"a": "y" * 9000},
    }
    log.get("app").warning("machine.spoke", **hostile)
    logging.getLogger("sushy.connector").error("The server returned:\n%s", "z" * 1_000_000)
    first_line, second_line = lines()
    assert "machine.spoke" == first_line["event"]
    assert len(json.dumps(first_line)) < 12_000
    assert "(60000 items)" in first_line["many"][-1]
    assert len(json.dumps(second_line)) < 6_000


@pytest.mark.parametrize("certificates", ["/proc/self/fd/2", "/etc/ssl/certs/ca-certificates.crt", "False", "true",
                                   "", "-----BEGIN CERTIFICATE-----\n/proc/self/fd/2", PEM + "\0"])  # fmt: skip
def test_a_heartbeat_names_certificates_and_no_path_or_word(api, certificates):
    node = api.node(provision_state="clean wait")
    body = {"callback_url": "https://127.0.0.9:1", "agent_token": "x", "agent_version": "9",
            "agent_verify_ca": certificates}  # fmt: skip
    answer = api("POST", f"/v1/heartbeat/{node['uuid']}", body)
    assert 400 == answer.status_code
    assert "agent_verify_ca" in answer.text
