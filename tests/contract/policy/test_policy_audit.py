"""Audit records under a policy: readers, denied requests, answers with secrets."""

from types import SimpleNamespace

import pytest
from sqlalchemy import delete, select
from sqlalchemy.exc import OperationalError

from app.api.request import auditing
from app.api.request.context import services_of
from app.engine import rpc
from app.models import AuditRecord

from .conftest import LESSEE, OWNER, people

PASSWORD, USER_DATA, CONSOLE = (
    "s3cret-of-the-bmc",
    "s3cret-of-the-user",
    "https://console/?token=s3cret",
)
RULES = "show_password: 'role:reader and system_scope:all'\n"


@pytest.fixture
def records(guarded, configured_apps):
    """() -> (action, status, requests, target, project, fields) of each record; forget() all."""

    def flush():
        for _, app in configured_apps:
            services_of(app).refused_requests.flush()

    def read():
        flush()
        with guarded.api.runtime.reading() as session:
            rows = session.scalars(select(AuditRecord).order_by(AuditRecord.id))
            return [
                (row.action, row.status, row.requests, row.target, row.project_id, row.fields)
                for row in rows
            ]

    def forget():
        flush()
        with guarded.api.runtime.transaction() as session:
            session.execute(delete(AuditRecord))

    forget()
    return SimpleNamespace(read=read, forget=forget)


def test_only_system_readers_read_the_records(guarded):
    allowed = people("system-reader") | {"system-service"}
    for caller in ("system-reader", "system-admin", "system-service", "owner-admin", "lessee-admin",
                "owner-service", "service-project", "domain-admin", "nobody"):  # fmt: skip
        status = guarded.ask(caller, "GET", "/v1/audit").status_code
        assert (200 if caller in allowed else 403) == status, caller


def test_denied_requests_are_recorded_with_their_caller(guarded, records):
    path = f"/v1/nodes/{guarded.node}/maintenance"
    for _ in range(3):
        assert 403 == guarded.ask("lessee-reader", "PUT", path, {}).status_code
    assert 403 == guarded.ask("owner-admin", "GET", "/v1/conductors").status_code
    assert 401 == guarded.ask("a stranger", "GET", "/v1/nodes").status_code
    assert 401 == guarded.ask("a stranger", "POST", "/v1/no-such-path").status_code
    assert [
        ("update/node/maintenance", 403, 3, guarded.node, LESSEE, None),
        ("read/conductor", 403, 1, None, OWNER, None),
        ("read/node", 401, 1, None, None, None),
        ("post/unknown", 401, 1, None, None, None),
    ] == records.read()


def test_answers_with_secrets_are_recorded_and_others_are_not(
    guarded, records, tmp_path, monkeypatch
):
    api, node = guarded.api, guarded.node
    info = {"redfish_password": PASSWORD}
    api.set(node, driver_info=info, instance_info={"configdrive": USER_DATA}, console_enabled=True)
    policy = tmp_path / "policy.yaml"
    policy.write_text(RULES)
    ask = guarded.make(oslo_policy={"policy_file": str(policy)})
    records.forget()
    path = f"/v1/nodes/{node}"
    assert PASSWORD not in ask("owner-admin", "GET", path).text
    assert PASSWORD not in ask("system-reader", "GET", f"{path}?fields=uuid,name").text
    assert [] == records.read()
    for query in (path, f"{path}?fields=driver_info", "/v1/nodes/detail"):
        text = ask("system-reader", "GET", query).text
        assert PASSWORD in text
        assert USER_DATA not in text
    patch = [{"op": "add", "path": "/description", "value": "d"}]
    assert PASSWORD in ask("system-admin", "PATCH", path, patch).text
    monkeypatch.setattr(rpc, "call", lambda *_, **__: {"url": CONSOLE})
    assert CONSOLE in ask("system-admin", "GET", f"{path}/states/console").text
    both = "shown:driver_info,shown:driver_internal_info"
    assert [
        ("read/node", 200, 1, node, None, both),
        ("read/node", 200, 1, node, None, "shown:driver_info,fields"),
        ("read/node/detail", 200, 1, None, None, both),
        ("update/node", 200, 1, node, None, f"{both},description"),
        ("read/node/state/console", 200, 1, node, None, "shown:console_info"),
    ] == records.read()


def test_an_answer_with_secrets_is_kept_back_if_it_cannot_be_recorded(
    guarded, records, monkeypatch
):
    api, node = guarded.api, guarded.node
    api.set(node, console_enabled=True)
    monkeypatch.setattr(rpc, "call", lambda *_, **__: {"url": CONSOLE})

    def fail(*_):
        raise OperationalError("INSERT", {}, Exception("disk full"))

    monkeypatch.setattr(auditing.audit_records, "add", fail)
    answer = guarded.ask("system-admin", "GET", f"/v1/nodes/{node}/states/console")
    assert 503 == answer.status_code
    assert CONSOLE not in answer.text
