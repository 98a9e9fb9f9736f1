"""OpenStack's own tests of the bare metal API, ironic-tempest-plugin, against the service."""

import os
import re
import subprocess

import pytest

from tests.e2e import real_keystone
from tests.support.fleet import CALM, Fleet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

TESTS = "ironic_tempest_plugin.tests.api"
#: Classes of tests that are skipped -> the reason that Tempest gives.
SKIPPED = {f"{TESTS}.admin.test_nodes.TestNodesVif": "Neutron is not enabled."}
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
enabled_console_interfaces = fake-graphical,no-console
"""
STESTR = """[DEFAULT]
test_path = {packages}/tempest/test_discover
top_dir = {packages}
"""
#: Lines of stestr about a test, without the identifiers in brackets, and about a class of them.
RESULT = re.compile(r"^\{\d+\} (\S+?)(?:\[\S*\])? \[\S+\] \.\.\. (\w+)", re.MULTILINE)
SKIP = re.compile(r"^\{\d+\} setUpClass \((\S+)\) \.\.\. SKIPPED: (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Run the tests; return what stestr prints."""
    folder = tmp_path_factory.mktemp("tempest")
    with (
        real_keystone.serving(folder / "keystone") as keystone,
        Fleet(
            folder, conductors=1, INGOT_ENABLED_HARDWARE_TYPES="fake-hardware,ipmi", **CALM,
            **keystone.settings,
        ) as fleet,
    ):  # fmt: skip
        keystone.list_in_catalog(fleet.url)
        return run(folder, keystone)


def run(folder, keystone):
    """Run stestr; return its output."""
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


def test_all_tests_of_the_api_pass(output):
    results = dict(RESULT.findall(output))
    assert {"ok"} == set(results.values()), output
    assert 480 <= len(results)


def test_what_is_skipped_is_known(output):
    assert dict(SKIP.findall(output)) == SKIPPED
