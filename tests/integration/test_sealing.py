"""Secrets in the database: encryption, rotation, and encryption of rows that were written before."""

import json

import pytest
from sqlalchemy import Text, cast, func, select, text, update
from typer.testing import CliRunner

from app.agents import heartbeats, lookup
from app.config import settings
from app.config.settings import SettingsError
from app.db import connections
from app.db.sealing import MARK, Keyring, keyring_of
from app.lifecycle.provision_states import State
from app.models import AgentRecord, DataKey, Node
from tests.integration.conftest import KEY, OTHER
from tests.support.inside import Inside
from workers import cli
from workers.doctor import examination
from workers.periodic import sealing

INFO = {"redfish_address": "https://bmc", "redfish_password": "calvin", "deep": [{"x_token": {"a": 1}}],
        "image": "http://h/i?sig=SIGNED", "empty_password": "", "snmp_auth_key": "k"}  # fmt: skip
SECRETS = ("calvin", "SIGNED", '"a"')


def another(inside, *keys):
    return Inside(inside.url, INGOT_DATABASE_SECRETS_KEY="\n".join(keys))


def stored(url, column=Node.driver_info):
    """Return the texts of a column as they are in the database."""
    engine = connections.connect(url)
    try:
        with engine.connect() as connection:
            return list(connection.scalars(select(cast(column, Text)).order_by(text("1"))))
    finally:
        engine.dispose()


def run(inside, *words, keys=(KEY,)):
    environ = {"INGOT_DATABASE_CONNECTION": inside.url, "INGOT_CONFIG": ""}
    environ["INGOT_DATABASE_SECRETS_KEY"] = "\n".join(keys)
    result = CliRunner(env=environ).invoke(cli.app, ["secrets", *words])
    assert 0 == result.exit_code, result.output
    return result.stdout


def test_secrets_are_encrypted_in_place_and_read_as_they_were(sealed):
    node = sealed.node(driver_info=INFO)

    assert INFO == sealed.read(node).driver_info
    (content,) = stored(sealed.url)
    document = json.loads(content)
    assert [] == [secret for secret in SECRETS if secret in content]
    assert "https://bmc" == document["redfish_address"]
    assert "" == document["empty_password"]
    assert document["redfish_password"].startswith(MARK)
    assert document["image"].startswith(MARK)


def test_a_text_that_looks_encrypted_is_kept(sealed):
    text_ = f"{MARK}2:0123456789abcdef:AAAA"
    node = sealed.node(driver_info={"a": text_, "password": text_})

    assert {"a": text_, "password": text_} == sealed.read(node).driver_info


@pytest.mark.parametrize(
    ("keys", "words"),
    [((), "secrets_key_file is needed"), ((OTHER,), "needs master key"), (("AAAA",), "32 bytes")],
)
def test_a_process_with_a_missing_or_wrong_key_does_not_start(sealed, keys, words):
    with pytest.raises(SettingsError, match=words):
        another(sealed, *keys)


def test_rotation_changes_keys_and_no_rows(sealed):
    node = sealed.node(driver_info=INFO)
    rows = stored(sealed.url)

    run(sealed, "rotate", keys=(OTHER, KEY))

    assert rows == stored(sealed.url)
    renewed = another(sealed, OTHER)  # the first master key is not needed any more
    assert INFO == renewed.read(node).driver_info
    second = renewed.node(driver_info=INFO)
    # a process that has not read the new data key yet reads it when it is needed
    assert INFO == another(sealed, OTHER).read(second).driver_info
    status = json.loads(run(sealed, "status", keys=(OTHER,)))
    assert 2 == len(status["data_keys"])
    assert status["master_keys"] == list({key["master_key"] for key in status["data_keys"]})
    renewed.close()


def test_the_doctor_reports_a_missing_key_and_one_that_is_not_used(database, monkeypatch):
    plain = Inside(database)
    plain.close()

    def subjects(*keys, address="127.0.0.1"):
        environ = {
            "INGOT_DATABASE_CONNECTION": database,
            "INGOT_API_HOST_IP": address,
            "INGOT_DATABASE_SECRETS_KEY": "\n".join(keys),
        }
        findings = examination.examine(settings.load(environ), fix=False)
        return [finding.subject for finding in findings if finding.check == "encryption"]

    monkeypatch.setattr(examination, "PAUSE", 0)
    assert subjects() == ([] if database.startswith("sqlite") else ["secrets"])
    assert ["secrets"] == subjects(address="0.0.0.0")
    assert ["secrets"] == subjects(KEY)
    run(plain, "rotate")
    assert [] == subjects(KEY)
    assert ["data keys"] == subjects(OTHER, KEY)


def test_the_doctor_reports_secrets_of_a_data_key_that_is_lost(sealed, monkeypatch):
    environ = {"INGOT_DATABASE_CONNECTION": sealed.url, "INGOT_DATABASE_SECRETS_KEY": KEY}

    def findings():
        results = examination.examine(settings.load(environ), fix=False)
        return {
            finding.subject: finding.explanation
            for finding in results
            if finding.check == "unreadable secrets"
        }

    monkeypatch.setattr(examination, "PAUSE", 0)
    node = sealed.node(driver_info=INFO)
    sealed.agent(node, token="calvin")
    assert {} == findings()
    lost = json.loads(run(sealed, "status"))["data_keys"][0]["id"]
    run(sealed, "rotate")
    with sealed.runtime.write_connection() as connection:
        connection.execute(text("DELETE FROM data_keys WHERE id = :lost"), {"lost": lost})
    explanations = findings()
    assert {"nodes.driver_info", "agents.token"} <= {*explanations}
    assert f"row {node}, which needs data key {lost}" in explanations["nodes.driver_info"]


def test_a_running_process_reads_secrets_of_a_newer_data_key(sealed):
    run(sealed, "rotate")
    newer = sealed.another()
    node = newer.node(driver_info=INFO)
    newer.close()

    assert INFO == sealed.read(node).driver_info


def test_older_rows_are_encrypted_in_batches(database, monkeypatch):
    plain = Inside(database)
    nodes = [
        plain.node(driver_info=INFO, instance_info={"configdrive": "calvin"}) for _ in range(5)
    ]
    plain.agent(nodes[0], token="calvin")
    plain.close()
    keyed = another(plain, KEY)
    run(keyed, "rotate")
    keyed.close()
    keyed = another(plain, KEY)
    assert 0 == sealing.seal_older_rows(keyed.runtime)  # other processes may not know the key yet
    with keyed.runtime.write_connection() as connection:
        connection.execute(update(DataKey).values(created_at=func.coalesce("2026-01-01 00:00:00", None)) if connection.dialect.name == "sqlite" else text("UPDATE data_keys SET created_at = '2026-01-01'"))  # fmt: skip
    monkeypatch.setattr(sealing, "BATCH", 2)
    monkeypatch.setattr(sealing, "MOST", 0.0)  # a run that is interrupted

    assert 0 == sealing.seal_older_rows(keyed.runtime)
    monkeypatch.setattr(sealing, "MOST", 20.0)
    assert 6 == sealing.seal_older_rows(keyed.runtime)

    for column in (Node.driver_info, Node.instance_info):
        assert [] == [value for value in stored(plain.url, column) if "calvin" in value]
    (token,) = stored(plain.url, AgentRecord.token)
    assert token.startswith(MARK)
    assert [INFO] * 5 == [keyed.read(node).driver_info for node in nodes]
    assert [] == json.loads(run(keyed, "status"))["tables_to_encrypt"]
    assert 0 == sealing.seal_older_rows(keyed.runtime)
    keyed.close()


def test_heartbeats_are_compared_by_a_digest_of_the_token(sealed):
    node = sealed.node(State.CLEAN_WAIT)
    with sealed.runtime.transaction() as session:
        token = lookup.token(session, session.get(Node, node))
    uuid = sealed.read(node).uuid
    body = {"callback_url": "https://a", "agent_token": token, "agent_version": "9"}
    repeated = heartbeats.AgentHeartbeat(uuid, body)

    assert [None] == heartbeats.record_batch(sealed.runtime, [repeated])  # the first one is checked
    heartbeats.heartbeat(sealed.runtime, uuid, body)

    assert heartbeats.record_batch(sealed.runtime, [repeated])[0].node_id == node
    wrong = heartbeats.AgentHeartbeat(uuid, {**body, "agent_token": "wrong"})
    assert [None] == heartbeats.record_batch(sealed.runtime, [wrong])
    assert token not in str(stored(sealed.url, AgentRecord.token))
    (digest,) = stored(sealed.url, AgentRecord.token_digest)
    assert keyring_of(sealed.runtime.engine.dialect).digest(token) == digest
    assert Keyring().digest(token) != digest
    with sealed.runtime.transaction() as session:
        session.get(AgentRecord, node).token = "another"
    assert [None] == heartbeats.record_batch(sealed.runtime, [repeated])
