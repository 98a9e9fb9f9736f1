"""Secrets of all tables that no key opens: each request is answered, and no cipher text is shown."""

import pytest
from sqlalchemy import select, update

from app.db.master_keys import Master
from app.db.sealing import MARK, NO_KEYS, Keyring, use
from app.db.secret_columns import Document
from app.models import Answered
from app.rows import data_keys
from tests.contract import test_fuzz
from tests.contract.conftest import fault
from tests.contract.test_audit_records import filled
from tests.contract.test_repeats import declared, request_of, writing_rules
from workers.periodic import sealing

restore = test_fuzz.restore
SECRET = "calvin-and-hobbes"


def with_secret(value):
    """Return a document with a secret in it."""
    if isinstance(value, dict):
        return {**value, "x_password": SECRET}
    if isinstance(value, list):
        return [
            {**item, "args": {**item["args"], "x_password": SECRET}}
            if isinstance(item, dict) and isinstance(item.get("args"), dict)
            else item
            for item in value
        ]
    return value


def seal_all(api):
    """Put a secret into each document, and seal all of them with a key that is lost then."""
    with api.runtime.write_connection() as connection:
        for table in data_keys.tables():
            (key,) = table.primary_key
            columns = [column for column in table.c if isinstance(column.type, Document)]
            for row in connection.execute(select(key, *columns)).all() if columns else ():
                changes = dict(zip((column.key for column in columns), row[1:], strict=True))
                changes = {name: with_secret(value) for name, value in changes.items()}
                connection.execute(update(table).where(key == row[0]).values(**changes))
        use(connection.dialect, keyring())
        for table in data_keys.tables():
            sealing._seal_batch(connection, table)
        use(connection.dialect, keyring())


def keyring():
    master = Master(bytes(32))
    data_key = master.new_data_key()
    return Keyring([master], lambda: [data_key])


@pytest.fixture
def unreadable(restore, api):
    """Restores the database, with secrets that no key opens."""

    def again():
        use(api.runtime.engine.dialect, NO_KEYS)
        restore()
        seal_all(api)

    yield again
    use(api.runtime.engine.dialect, NO_KEYS)


def test_reads_are_answered_without_the_secrets(unreadable, api):
    unreadable()
    with api.runtime.read_connection() as connection:
        stored = connection.exec_driver_sql("SELECT driver_info FROM nodes").scalars().first()
    assert MARK in str(stored)
    wrong = []
    for method, path in declared():
        if method != "GET" or "stream" in path:
            continue
        answer = api("GET", filled(path))
        if answer.status_code >= 500 or MARK in answer.text or SECRET in answer.text:
            wrong.append((path, answer.status_code, answer.text[:300]))
    assert [] == wrong, "\n".join(map(str, wrong))


def test_writes_are_carried_out_or_refused(unreadable, api):
    wrong, routes = [], declared()
    for method, path in writing_rules(api):
        if (method, path) not in routes:
            continue
        unreadable()
        url, body = request_of(method, path)
        answer = api(method, url, body)
        if answer.status_code >= 500 or MARK in answer.text or SECRET in answer.text:
            wrong.append((method, path, answer.status_code, answer.text[:300]))
    assert [] == wrong, "\n".join(map(str, wrong))


def test_an_answer_that_no_key_opens_is_not_repeated(unreadable, api):
    use(api.runtime.engine.dialect, keyring())
    document, key = {"driver": "fake-hardware"}, {"Idempotency-Key": "k"}
    first_answer = api("POST", "/v1/nodes", document, **key)
    use(api.runtime.engine.dialect, keyring())
    second_answer = api("POST", "/v1/nodes", document, **key)
    assert 201 == first_answer.status_code
    assert 409 == second_answer.status_code, second_answer.text
    assert "Idempotency-Key" in fault(second_answer)["faultstring"]
    with api.runtime.reading() as session:
        assert 1 == len(session.scalars(select(Answered)).all())
