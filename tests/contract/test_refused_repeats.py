"""
Refused requests with an `Idempotency-Key`: nothing was done, and the key remains free.

A repetition is checked as a new request: it is refused as long as the reason of the refusal lasts, and
executed once after that.
"""

from dataclasses import dataclass

import pytest
from sqlalchemy import func, select

from app.api.request import auditing
from app.models import Answered, Hold, Operation

UUID = "5f7b4cd0-27a0-4a68-9c42-8d3f5a3f0c11"
NODE = f"/v1/nodes/{UUID}"
VERB = ("PUT", f"{NODE}/states/provision", {"target": "manage"})
MAINTENANCE = ("PUT", f"{NODE}/maintenance", {"reason": "disk"})
CHASSIS = ("POST", "/v1/chassis", {"uuid": UUID})
KEY = {"Idempotency-Key": "k"}
BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


def create_node(api):
    answer = api("POST", "/v1/nodes", {"driver": "fake-hardware", "uuid": UUID})
    assert 201 == answer.status_code, answer.text


def sets(**columns):
    return lambda api: api.set(UUID, **columns)


def nothing(_api):
    """The cause, or its end, is that of another row."""


def hold(api):
    assert 201 == api("POST", f"{NODE}/holds", {"kind": "hardware", "reason": "audit"}).status_code


def release(api):
    with api.runtime.reading() as session:
        uuid = session.scalar(select(Hold.uuid))
    assert 204 == api("DELETE", f"/v1/holds/{uuid}").status_code


def delete_chassis(api):
    assert 204 == api("DELETE", f"/v1/chassis/{UUID}").status_code


def create_chassis(api):
    assert 201 == api(*CHASSIS).status_code


@dataclass(frozen=True)
class Refusal:
    """A request, its refusal, and what brings about and ends the cause of the refusal."""

    name: str
    status: int
    request: tuple
    begin: object
    end: object
    has_node: bool = True


REFUSALS = [
    Refusal("state", 400, VERB, sets(provision_state="active"), sets(provision_state="enroll")),
    Refusal("no such node", 404, VERB, nothing, create_node, has_node=False),
    Refusal("locked node", 409, MAINTENANCE, sets(reservation="rack-1"), sets(reservation=None)),
    Refusal("held node", 409, VERB, hold, release),
    Refusal("name that is taken", 409, CHASSIS, create_chassis, delete_chassis, has_node=False),
    Refusal("no conductor", 503, VERB, sets(conductor_group="row-7"), sets(conductor_group="")),
]  # fmt: skip


def count(api, model):
    with api.runtime.reading() as session:
        return session.scalar(select(func.count()).select_from(model))


def replayed(answer):
    return answer.headers.get("Idempotency-Replayed")


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_a_refused_request_is_checked_again_and_executed_once(api, refusal):
    if refusal.has_node:
        create_node(api)
    refusal.begin(api)
    for _ in range(2):
        answer = api(*refusal.request, **KEY)
        assert (refusal.status, None) == (answer.status_code, replayed(answer)), answer.text
    assert 0 == count(api, Answered)
    refusal.end(api)
    first_answer = api(*refusal.request, **KEY)
    assert (True, None) == (first_answer.status_code < 300, replayed(first_answer)), (
        first_answer.text
    )
    second_answer = api(*refusal.request, **KEY)
    assert (first_answer.status_code, first_answer.data, "true") == (
        second_answer.status_code, second_answer.data, replayed(second_answer)
    )  # fmt: skip


def test_a_refused_tag_leaves_its_key_free(api):
    create_node(api)
    stale = {**KEY, "If-Match": '"another"'}
    assert [412, 412] == [api(*MAINTENANCE, **stale).status_code for _ in range(2)]
    tag = api("GET", NODE).headers["ETag"]
    first_answer, second_answer = (api(*MAINTENANCE, **KEY, **{"If-Match": tag}) for _ in range(2))
    assert [(202, None), (202, "true")] == [
        (answer.status_code, replayed(answer)) for answer in (first_answer, second_answer)
    ]


def test_a_defect_leaves_the_key_free(api, monkeypatch):
    create_node(api)

    def defect(*_arguments):
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(auditing, "record", defect)
        assert [500, 500] == [api(*VERB, **KEY).status_code for _ in range(2)]
    assert (0, 0) == (count(api, Answered), count(api, Operation))
    assert 202 == api(*VERB, **KEY).status_code


@BOTH
@pytest.mark.parametrize("is_committed", [False, True])
def test_a_503_of_the_database_means_that_the_outcome_is_asked_by_a_repetition(
    api, monkeypatch, is_committed
):
    """The connection is lost at the commit: the client cannot know whether before or after it."""
    create_node(api)
    dialect = api.runtime.engine.dialect
    commit = dialect.do_commit

    def lossy(connection):
        if is_committed:
            commit(connection)
        raise dialect.dbapi.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(dialect, "do_commit", lossy)
        answer = api(*VERB, **KEY)
    assert (503, None) == (answer.status_code, replayed(answer)), answer.text
    assert int(is_committed) == count(api, Operation)
    answer = api(*VERB, **KEY)
    assert (202, "true" if is_committed else None) == (answer.status_code, replayed(answer))
    assert 1 == count(api, Operation)
