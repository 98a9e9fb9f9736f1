"""The VNC server that shows the screen of a machine, and machines without a documented one."""

import json

import pytest

from drivers.core.errors import InvalidDriverInfo, NotSupported
from drivers.simulator.redfish_bmc.documents import MANAGER, SYSTEM
from tests.unit.drivers.documents import LocalBmc
from tests.unit.drivers.machines import with_option

KVM = {"ServiceEnabled": True, "ConnectTypesSupported": ["KVMIP"], "MaxConcurrentSessions": 4}


@pytest.fixture
def target(monkeypatch):
    def of(system=None, manager=None, model="Simulated BMC", launcher="", **info):
        changes = {
            SYSTEM: lambda document: {**document, "GraphicalConsole": system},
            MANAGER: lambda document: {**document, "GraphicalConsole": manager, "Model": model},
        }
        bmc = LocalBmc(changes=changes).install(monkeypatch)
        kind = {"console": "redfish-graphical"}
        driver_info = bmc.node(interfaces=kind).driver_info
        options = with_option("vnc", launcher=launcher)
        return bmc.node(interfaces=kind, options=options, driver_info={**driver_info, **info})

    return of


def screen(target):
    return target.driver.console.screen(target)


def test_a_server_of_the_settings_is_at_the_bmc_and_needs_no_question(target):
    node = target(vnc_port=5901, vnc_password="s3cret")
    server = screen(node)
    assert ("127.0.0.1", 5901, "s3cret", None) == (
        server.host, server.port, server.password, server.verify,
    )  # fmt: skip
    assert "s3cret" not in repr(server)
    other = screen(target(vnc_port="5900", vnc_host="2001:db8::5", vnc_tls="true"))
    assert ("[2001:db8::5]:5900", None) == (other.endpoint, other.password)
    assert other.verify is not None


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"vnc_port": "590x"}, "driver_info/vnc_port: must be a number"),
        ({"vnc_port": 65536}, "driver_info/vnc_port: must be a number"),
        ({"vnc_port": -1}, "driver_info/vnc_port: must be a number"),
        ({"vnc_port": "²"}, "driver_info/vnc_port: must be a number"),
        ({"vnc_port": [5900]}, "driver_info/vnc_port: must be a number"),
        ({"vnc_password": "x"}, "driver_info/vnc_port is missing beside vnc_password"),
        ({"vnc_host": "bmc"}, "driver_info/vnc_port is missing beside vnc_host"),
        ({"vnc_port": 5900, "vnc_host": 7}, "driver_info/vnc_host: must be a host name"),
        ({"vnc_port": 5900, "vnc_host": ""}, "driver_info/vnc_host: must be a host name"),
        ({"vnc_port": 5900, "vnc_password": "123456789"}, "driver_info/vnc_password: .* 1 to 8"),
        ({"vnc_port": 5900, "vnc_password": "éééé€"}, "driver_info/vnc_password: .* 1 to 8"),
        ({"vnc_port": 5900, "vnc_password": 12345678}, "driver_info/vnc_password: must be a text"),
        ({"vnc_port": 5900, "vnc_tls": "perhaps"}, "driver_info/vnc_tls: must be true or false"),
    ],
)
def test_a_wrong_setting_names_its_field_and_shows_no_password(target, info, words):
    node = target(**info)
    with pytest.raises(InvalidDriverInfo, match=words) as error:
        node.driver.validate("console", node)
    assert "123456789" not in str(error.value)


def test_a_host_that_a_setting_refuses_is_refused(target):
    node = target(vnc_port=5900, vnc_host="169.254.169.254")
    with pytest.raises(InvalidDriverInfo, match=r"vnc_host: .*\[bmc\]denied_networks"):
        node.driver.validate("console", node)


def test_openbmc_has_the_screen_at_its_web_server(target):
    server = screen(target(manager=KVM, model="OpenBmc"))
    assert "/kvm/0" == server.path
    assert ("admin", "admin") == server.login
    assert "admin" not in repr(server)
    for manager in (None, {**KVM, "ServiceEnabled": False}):
        with pytest.raises(NotSupported):
            screen(target(manager=manager, model="OpenBmc"))


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ({}, "names no graphical console, and no protocol"),
        ({"system": KVM}, r"names a graphical console \(KVMIP\)"),
        ({"manager": {"ConnectTypesSupported": ["OEM"]}}, r"names a graphical console \(OEM\)"),
        ({"system": KVM, "manager": {"ConnectTypesSupported": ["KVMIP", "OEM"]}}, "KVMIP, OEM"),
        ({"system": "KVMIP", "manager": {"ConnectTypesSupported": [7, None]}}, "names no"),
        ({"manager": [1]}, "names no graphical console"),
    ],
)
def test_a_bmc_without_a_documented_way_says_what_to_set(target, documents, words):
    with pytest.raises(NotSupported, match=words) as error:
        screen(target(**documents))
    assert str(error.value).endswith(
        "set driver_info/vnc_port if it has a VNC server, or [vnc]launcher"
    )


def test_a_launcher_gets_the_login_in_its_environment_alone(target):
    node = target(system=KVM, launcher="sh -c 'exec vnc {port} {node}'")
    server = screen(node)
    program = server.program
    assert ("sh", "-c", f"exec vnc {server.port} {node.uuid}") == program.arguments
    info = json.loads(program.environment["APP_INFO"])
    assert ("redfish-graphical", "admin") == (program.environment["APP"], info["password"])
    assert node.driver_info["redfish_address"].startswith(info["address"])
    assert ("admin",) == program.secrets
    assert "APP_INFO" not in repr(server)
    assert "127.0.0.1" == server.host


def test_a_launcher_that_is_not_installed_is_named(target):
    with pytest.raises(NotSupported, match=r"\[vnc\]launcher: the program nonesuch-vnc is not on"):
        screen(target(launcher="nonesuch-vnc {port}"))
