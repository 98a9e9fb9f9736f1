"""Published weaknesses of Ironic, and of Celery, with the tests that try each of them here."""

import ast
import os
from pathlib import Path

import pytest
from kombu.exceptions import ContentDisallowed
from kombu.serialization import dumps, loads, prepare_accept_content

from app.broker import queue
from app.config.settings import Settings
from app.models import InspectionReport

ROOT = Path(__file__).parents[2]
SECURITY, DRIVERS = "tests/security", "tests/unit/drivers"
ADVISORIES = {
    "CVE-2015-5306, debug console of the web framework": [
        f"{SECURITY}/test_advisories.py::test_an_unexpected_error_shows_no_console_and_no_traceback",
    ],
    "CVE-2015-7514, machines offered without cleaning": [
        "tests/integration/manual_cleaning/test_manual_cleaning.py::test_an_invalid_step_fails_the_clean_before_any_step",
    ],
    "CVE-2016-4985, credentials in lookups": [
        f"{SECURITY}/test_advisories.py::test_a_lookup_shows_no_credentials",
    ],
    "CVE-2019-10141, SQL in inspection data": [
        f"{SECURITY}/test_advisories.py::test_sql_in_a_report_or_a_query_is_a_value",
    ],
    "CVE-2022-47951, CVE-2024-44082, hostile images": [
        f"{DRIVERS}/agent/test_image.py::test_an_image_that_cannot_be_deployed_is_refused",
    ],
    "CVE-2024-47211, unverified checksums": [
        f"{DRIVERS}/agent/test_image.py::test_a_local_image_with_a_wrong_checksum_is_not_served",
        f"{DRIVERS}/agent/test_image.py::test_a_wrong_field_of_an_image_is_named",
    ],
    "CVE-2025-44021, files of the conductor": [
        f"{DRIVERS}/net/test_urls.py::test_a_file_outside_of_the_allowed_directories_is_never_read",
        f"{SECURITY}/test_files_and_urls.py::test_the_data_directory_is_refused_even_below_an_allowed_directory",
    ],
    "CVE-2026-44919, devices as images": [
        f"{DRIVERS}/net/test_urls.py::test_devices_system_files_and_the_data_directory_are_not_read_even_where_allowed",
    ],
    "CVE-2026-44916, templates of tenants": [
        f"{DRIVERS}/net/test_urls.py::test_the_kickstart_template_of_a_node_is_never_a_file",
        f"{SECURITY}/test_boot_files.py::test_a_template_ends_within_its_limits_and_with_the_error_of_its_field",
        f"{SECURITY}/test_boot_files.py::test_a_template_sees_neither_the_environment_nor_a_file_of_the_conductor",
    ],
    "CVE-2026-46447, commands in boot scripts": [
        f"{SECURITY}/test_boot_files.py::test_no_value_of_a_node_becomes_a_command_of_a_boot_loader",
    ],
    "CVE-2026-42997, credentials for another server": [
        f"{SECURITY}/test_files_and_urls.py::test_the_password_of_an_image_is_sent_to_its_own_server_only",
    ],
    "OSSN-0099, deep JSON": [
        f"{SECURITY}/test_advisories.py::test_deep_json_without_a_credential_is_a_400",
    ],
    "CVE-2021-23727 of Celery, code in messages": [
        f"{SECURITY}/test_advisories.py::test_a_pickled_message_is_refused_and_runs_no_code",
    ],
}  # fmt: skip


@pytest.mark.parametrize("advisory", ADVISORIES)
def test_each_advisory_has_its_tests(advisory):
    for test_id in ADVISORIES[advisory]:
        path, _, name = test_id.partition("::")
        tree = ast.parse((ROOT / path).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, (
            test_id
        )


def test_an_unexpected_error_shows_no_console_and_no_traceback(api, monkeypatch):
    def broken(*_args, **_kwargs):
        raise RuntimeError("INTERNAL-DETAIL")

    monkeypatch.setattr("app.agents.lookup.lookup", broken)
    answer = api("GET", "/v1/lookup?addresses=52:54:00:00:00:01")
    assert 500 == answer.status_code
    for word in ("Traceback", "INTERNAL-DETAIL", "__debugger__", "console"):
        assert word not in answer.text
    assert 404 == api("GET", "/console").status_code


def test_a_lookup_shows_no_credentials(api):
    node = api.node(provision_state="clean wait")
    secrets = {"redfish_password": "BMC-PW", "ipmi_password": "IPMI-PW", "ssh_key": "KEY"}
    api.set(node["uuid"], driver_info=secrets)
    answer = api("GET", f"/v1/lookup?node_uuid={node['uuid']}")
    assert 200 == answer.status_code
    assert "driver_info" not in answer.json["node"]
    for secret in secrets.values():
        assert secret not in answer.text


@pytest.mark.parametrize("text", ["x' OR '1'='1", "' OR 1=1 --", "'; DROP TABLE nodes; --"])
def test_sql_in_a_report_or_a_query_is_a_value(api, text):
    node = api.node(provision_state="inspect wait")
    interface = {"mac_address": text}
    for inventory in (
        {"interfaces": [interface], "bmc_address": "192.0.2.1"},
        {"interfaces": [{"mac_address": "52:54:00:00:00:01"}], "bmc_address": text},
    ):
        answer = api("POST", "/v1/continue_inspection", {"inventory": inventory})
        assert answer.status_code == 404
    with api.runtime.reading() as session:
        assert [] == session.query(InspectionReport).all()
    assert 400 == api("GET", f"/v1/nodes?sort_key=id{text}").status_code
    assert [] == api("GET", f"/v1/nodes?owner={text}").json["nodes"]
    assert node["uuid"] == api("GET", "/v1/nodes").json["nodes"][0]["uuid"]


@pytest.mark.parametrize("path", ["/v1/continue_inspection", "/v1/heartbeat/x", "/v1/nodes"])
def test_deep_json_without_a_credential_is_a_400(api, path):
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    headers = {"X-OpenStack-Ironic-API-Version": "1.96", "Content-Type": "application/json"}
    assert 400 == api.client.post(path, data=deep, headers=headers).status_code


class Payload:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return (Path.touch, (Path("/tmp") / f"unpickled-{os.getpid()}",))


def test_a_pickled_message_is_refused_and_runs_no_code():
    application = queue.celery(Settings())
    accepted = prepare_accept_content(application.conf.accept_content)
    kind, encoding, body = dumps(Payload(), serializer="pickle")
    with pytest.raises(ContentDisallowed):
        loads(body, kind, encoding, accept=accepted)
    assert not Path("/tmp", f"unpickled-{os.getpid()}").exists()
    assert ("json", True) == (application.conf.task_serializer, application.conf.task_ignore_result)
