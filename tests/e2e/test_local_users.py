"""`ingot up` that other hosts reach: its users, by the clients of OpenStack and its own commands."""

import os
import subprocess
import sys

import openstack
import pytest
from openstack.exceptions import ForbiddenException, HttpException

from tests.contract.clients.cli import Baremetal
from tests.e2e.command_line import INGOT, environment
from tests.support import programs
from tests.support.fleet import Fleet, until

BAREMETAL = os.path.join(os.path.dirname(sys.executable), "baremetal")
BLUE = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("users"), "--host", "0.0.0.0", conductors=1) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def password(fleet):
    """Password of the first administrator."""
    return (fleet.data / "admin-password").read_text().strip()


@pytest.fixture(scope="module")
def ingot(fleet):
    """Run a command on the database of the service; return its lines."""

    def run(*words, stdin=""):
        words += ("--data-dir", fleet.data, "-o", "value")
        environ = environment(fleet.url)
        result = programs.run("workers.ingot:main", argv=words, environ=environ, stdin=stdin)
        assert 0 == result.status, result.err
        return result.out.splitlines()

    return run


@pytest.fixture(scope="module")
def token(ingot):
    """API token of a member of a project."""
    ingot("user", "create", "bob", stdin="battery staple\n")
    ingot("project", "create", "blue", "--id", BLUE)
    ingot("role", "grant", "member", "--user", "bob", "--project", "blue")
    return ingot("token", "create", "bob", "--project", "blue", "--fields", "token")[0]


def connected(fleet, **auth):
    return openstack.connect(
        endpoint=fleet.url, baremetal_endpoint_override=fleet.url, load_yaml_config=False,
        load_envvars=False, **auth,
    )  # fmt: skip


def test_the_password_of_the_first_admin_is_not_logged(fleet, password):
    assert 401 == fleet.http.get(f"{fleet.url}/v1/nodes").status_code
    (entry,) = fleet.log("admin.created")
    assert str(fleet.data / "admin-password") == entry["file"]
    assert password not in fleet.text()
    assert not fleet.log("api.no_authentication")


def test_openstacks_command_works_with_a_password_and_with_a_token(fleet, password, token):
    """Once as a process, with the variables that users set; then in this process."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    basic = {"OS_AUTH_TYPE": "http_basic", "OS_USERNAME": "admin", "OS_PASSWORD": password}
    words = ("node", "create", "--driver", "fake-hardware", "--name", "first", "--owner", BLUE)
    process = subprocess.run(
        [BAREMETAL, *words], capture_output=True, text=True, timeout=120, check=False,
        env={**variables, "OS_ENDPOINT": fleet.url, "NO_PROXY": "*", **basic},
    )  # fmt: skip
    assert 0 == process.returncode, process.stderr
    Baremetal(fleet.url, **basic)("node", "manage", "first", "--wait", "60")

    of_bob = Baremetal(fleet.url, OS_AUTH_TYPE="admin_token", OS_TOKEN=token)
    assert BLUE == of_bob("node", "show", "first")["owner"]
    assert "baremetal:conductor:get" in of_bob.refused("conductor", "list")
    wrong = Baremetal(fleet.url, **{**basic, "OS_PASSWORD": "guess"})
    assert "401" in wrong.refused("node", "list")


def test_the_sdk_works_with_a_password_and_with_a_token(fleet, password, token):
    with connected(fleet, auth_type="http_basic", username="admin", password=password) as admin:
        node = admin.baremetal.create_node(driver="fake-hardware", name="of-sdk")
        admin.baremetal.set_node_provision_state(node, "manage", wait=True, timeout=60)
        assert ["fleet-1"] == [conductor.hostname for conductor in admin.baremetal.conductors()]
        admin.baremetal.delete_node(node)
    with connected(fleet, auth_type="admin_token", token=token) as bob:
        list(bob.baremetal.nodes())
        with pytest.raises(ForbiddenException):
            list(bob.baremetal.conductors())
    with (
        connected(fleet, auth_type="http_basic", username="bob", password="wrong") as other,
        pytest.raises(HttpException) as error,
    ):
        list(other.baremetal.nodes())
    assert 401 == error.value.status_code


def test_ingots_own_commands_work_and_a_revocation_has_effect_at_once(
    fleet, password, token, ingot
):
    def node_list(**environ):
        return subprocess.run(
            [INGOT, "node", "list"], capture_output=True, text=True, timeout=60, check=False,
            env=environment(fleet.url, **environ),
        )  # fmt: skip

    assert 0 == node_list(INGOT_USERNAME="admin", INGOT_PASSWORD=password).returncode
    assert 0 == node_list(OS_TOKEN=token).returncode
    uuid = ingot("token", "list", "--fields", "uuid")[0]
    assert until(lambda: ingot("token", "list", "--fields", "used_at")[0], "the record of the use")
    ingot("token", "revoke", uuid)
    assert "revoked" in node_list(OS_TOKEN=token).stderr
    ingot("user", "set-password", "admin", stdin="another password\n")
    assert 1 == node_list(INGOT_USERNAME="admin", INGOT_PASSWORD=password).returncode
    assert 0 == node_list(INGOT_USERNAME="admin", INGOT_PASSWORD="another password").returncode


def test_no_secret_of_a_user_is_in_the_files_of_the_service(fleet, password, token):
    files = [path for path in fleet.data.rglob("*") if path.is_file()]
    assert {"ingot.db", "redis.log"} <= {file.name for file in files}
    for file in files:
        content = file.read_bytes()
        for secret in (password, token, "battery staple", "another password"):
            assert file.name == "admin-password" or secret.encode() not in content, file
    for secret in (token, "battery staple", "another password"):
        assert secret not in fleet.text()
