"""NUL in documents: PostgreSQL stores it in JSON, and fails when it reads the text."""

import pytest
from flask import request

from app.api.request.parsing import decoded
from tests.contract.conftest import fault

BACKSLASH = "\\"


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_tenant_puts_no_nul_into_a_document(api, kind):
    node = api.node()["uuid"]
    for path in ("/instance_info/display_name", "/extra/rack", "/extra"):
        for value in ("a\0b", {"a\0b": 1}, [{"deep": "\0"}], f"{BACKSLASH}\0"):
            change = [{"op": "add", "path": path, "value": value}]
            answer = api("PATCH", f"/v1/nodes/{node}", change)
            assert 400 == answer.status_code, answer.text
            assert "NUL" in fault(answer)["faultstring"]
    strategy = {"group_by": "extra.rack"}
    rollout = {"target": "power on", "nodes": {}, "strategy": strategy, "dry_run": True}
    assert 200 == api("POST", "/v1/rollouts", rollout).status_code


def test_a_text_about_nul_is_no_nul(api):
    node = api.node()["uuid"]
    for text in (f"{BACKSLASH}u0000", f"{BACKSLASH * 3}u0000"):
        change = [{"op": "add", "path": "/extra/text", "value": text}]
        answer = api("PATCH", f"/v1/nodes/{node}", change)
        assert 200 == answer.status_code, answer.text
        assert text == answer.json["extra"]["text"]


def test_nul_is_removed_from_reports_of_machines(api):
    report = {"inventory": {"system_vendor": {"serial_number": "12\0\0\0"}}}
    context = api.client.application.test_request_context
    with context("/v1/continue_inspection", method="POST", json=report):
        read = decoded(request)
    assert {"inventory": {"system_vendor": {"serial_number": "12"}}} == read
