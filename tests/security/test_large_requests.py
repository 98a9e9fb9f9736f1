"""Requests of tenants that would make nodes, or the answers about them, too large."""

import pytest

from tests.contract.conftest import fault

STEP = {"interface": "vendor", "step": "log_passthrough"}


@pytest.mark.parametrize(
    ("verb", "field", "step"),
    [
        ("clean", "clean_steps", STEP),
        ("service", "service_steps", STEP),
        ("active", "deploy_steps", STEP | {"args": {}, "priority": 1}),
    ],
)
def test_a_request_has_a_limited_number_of_steps(guarded, verb, field, step):
    """Each step becomes a row, and all are part of the node."""
    path = f"/v1/nodes/{guarded.node}/states/provision"
    for number, status in ((1000, 200), (1001, 400)):
        body = {"target": verb, field: [step] * number, "dry_run": True}
        answer = guarded.ask("lessee-manager", "PUT", path, body)
        assert status == answer.status_code, answer.text
    assert "1000" in fault(answer)["faultstring"]


def test_a_runbook_has_a_limited_number_of_steps(guarded):
    def runbook(number):
        steps = [
            {"interface": "power", "step": f"s{n}", "args": {}, "order": n} for n in range(number)
        ]
        body = {"name": f"CUSTOM_{number}", "steps": steps}
        return guarded.ask("owner-manager", "POST", "/v1/runbooks", body)

    assert 201 == runbook(1000).status_code
    assert 400 == runbook(1001).status_code


def test_patches_make_no_document_larger_than_a_body(guarded):
    path, half = f"/v1/nodes/{guarded.node}", "x" * (600 << 10)
    guarded.api.set(guarded.node, last_error=None)

    def change(op, key, **value):
        patch = [{"op": op, "path": f"/extra/{key}", **value}]
        return guarded.ask("owner-admin", "PATCH", path, patch)

    assert 200 == change("add", "a", value=half).status_code
    refused = change("add", "b", value=half)
    assert 400 == refused.status_code
    assert "extra: would have 1200 KiB; at most 1024 KiB" in fault(refused)["faultstring"]
    guarded.api.set(guarded.node, extra={"a": half, "b": half, "c": 1})  # by an older release
    assert 200 == change("remove", "c").status_code
    assert 400 == change("add", "d", value=1).status_code


def test_a_large_config_drive_does_not_count(guarded):
    """It comes with a verb, whose body may be larger."""
    info = {"configdrive": "x" * (2 << 20)}
    guarded.api.set(guarded.node, instance_info=info, last_error=None)
    patch = [{"op": "add", "path": "/instance_info/image_source", "value": "http://192.0.2.1/i"}]
    answer = guarded.ask("owner-admin", "PATCH", f"/v1/nodes/{guarded.node}", patch)
    assert 200 == answer.status_code, answer.text
