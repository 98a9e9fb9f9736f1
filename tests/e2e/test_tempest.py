"""OpenStack's own tests of the bare metal API, ironic-tempest-plugin, against the service."""

import os
import re
import subprocess

import pytest

from tests.e2e import real_keystone
from tests.support.fleet import CALM, Fleet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

TESTS = "ironic_tempest_plugin.tests.api"
#: Tests that do not run in Ironic's own jobs either, with the part that they need.
NOT_RUN = {}
TEMPEST = """[DEFAULT]
log_file = {folder}/tempest.log
[oslo_concurrency]
lock_path = {folder}/locks
[auth]
use_dynamic_credentials = true
create_isolated_networks = false
admin_username = admin
admin_password = {password}
admin_project_name = admin
admin_domain_name = Default
admin_user_domain_name = Default
admin_system = all
[identity]
uri_v3 = {keystone}/v3
auth_version = v3
region = RegionOne
[service_available]
ironic = true
nova = false
neutron = false
glance = false
cinder = false
swift = false
[enforce_scope]
ironic = true
[baremetal]
driver = fake-hardware
max_microversion = latest
"""
STESTR = """[DEFAULT]
test_path = {packages}/tempest/test_discover
top_dir = {packages}
"""
#: A line of stestr about a test: its name, without the identifiers in brackets, and its result.
LINE = re.compile(r"^\{\d+\} (\S+?)(?:\[\S*\])? \[.*\] \.\.\. (\w+)(?:: (.*))?$", re.MULTILINE)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Name of each test of Tempest -> (result, reason of a skip)."""
    folder = tmp_path_factory.mktemp("tempest")
    with (
        real_keystone.serving(folder / "keystone") as keystone,
        Fleet(
            folder, conductors=1, INGOT_ENABLED_HARDWARE_TYPES="fake-hardware,ipmi", **CALM,
            **keystone.settings,
        ) as fleet,
    ):  # fmt: skip
        keystone.list_in_catalog(fleet.url)
        output = run(folder, keystone)
    (folder / "output").write_text(output)
    return {name: (result, reason) for name, result, reason in LINE.findall(output)}, output


def run(folder, keystone):
    """Run the tests; return the output of stestr."""
    (packages,) = keystone.environment.glob("lib/python3*/site-packages")
    (folder / "tempest.conf").write_text(
        TEMPEST.format(folder=folder, keystone=keystone.url, password=real_keystone.PASSWORD)
    )
    (folder / ".stestr.conf").write_text(STESTR.format(packages=packages))
    program = keystone.environment / "bin" / "stestr"
    places = {"TEMPEST_CONFIG_DIR": str(folder), "TEMPEST_CONFIG": "tempest.conf"}
    return subprocess.run(
        [program, "run", "--concurrency", "2", TESTS],
        check=False, cwd=folder, env={**os.environ, **places}, capture_output=True, text=True,
    ).stdout  # fmt: skip


def test_all_tests_of_the_api_pass(results):
    by_name, output = results
    failed = [name for name, (result, _) in by_name.items() if result == "FAILED"]
    assert [] == failed, output
    assert 450 < sum(result == "ok" for result, _ in by_name.values())


def test_those_that_are_skipped_need_what_is_not_here(results):
    by_name, _ = results
    skipped = {name: reason for name, (result, reason) in by_name.items() if result == "SKIPPED"}
    assert NOT_RUN == skipped
