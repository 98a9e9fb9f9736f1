"""The program of a serial console that a Redfish BMC offers, and BMCs that offer none."""

import shutil

import pytest

from drivers.core.errors import InvalidDriverInfo, NotSupported
from drivers.redfish.console import services
from drivers.simulator.redfish_bmc.documents import MANAGER, SYSTEM
from tests.unit.drivers.documents import LocalBmc
from tests.unit.drivers.machines import with_option

SSH = {"ServiceEnabled": True, "Port": 2200, "ConsoleEntryCommand": "start /system1/console"}
IPMI = {"ServiceEnabled": True, "Port": 6230}
OLD = {"ServiceEnabled": True, "ConnectTypesSupported": ["SSH", "IPMI"]}


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    """Names of the installed programs."""
    installed = {"ssh", "ipmitool"}
    monkeypatch.setattr(shutil, "which", lambda name, **_: name if name in installed else None)
    return installed


@pytest.fixture
def program(monkeypatch, tmp_path):
    def of(console=None, manager=None, **info):
        changes = {
            SYSTEM: lambda document: {**document, "SerialConsole": console},
            MANAGER: lambda document: {**document, "SerialConsole": manager},
        }
        bmc = LocalBmc(changes=changes).install(monkeypatch)
        node = bmc.node(interfaces={"console": "redfish-serial"})
        node = bmc.node(
            interfaces={"console": "redfish-serial"},
            options=with_option("DEFAULT", data_dir=str(tmp_path)),
            driver_info={**node.driver_info, **info},
        )
        interface = node.driver.console
        return interface.program(node)

    return of


@pytest.mark.parametrize(
    ("console", "managers", "offers"),
    [
        ({"SSH": SSH}, [], {"SSH": (2200, "start /system1/console")}),
        ({"IPMI": IPMI}, [], {"IPMI": (6230, "")}),
        ({"IPMI": {"ServiceEnabled": True}}, [], {"IPMI": (623, "")}),
        ({"SSH": {**SSH, "ServiceEnabled": False}}, [OLD], {"IPMI": (623, "")}),
        ({"IPMI": IPMI}, [OLD], {"IPMI": (6230, "")}),
        (None, [{**OLD, "ServiceEnabled": False}], {}),
        ("SSH", ["x", None, {"ServiceEnabled": True, "ConnectTypesSupported": "IPMI"}], {}),
        ({"SSH": {"ServiceEnabled": "true"}, "IPMI": []}, [], {}),
    ],
)
def test_services_are_read_from_the_system_and_from_older_managers(console, managers, offers):
    assert offers == services(console, managers)


@pytest.mark.parametrize("port", [0, -1, 70000, True, "22", None, 22.5])
def test_a_port_that_is_none_is_the_usual_one(port):
    assert {"SSH": (22, "")} == services({"SSH": {"ServiceEnabled": True, "Port": port}}, [])


def test_ssh_is_preferred_and_has_no_secret_in_its_arguments(program, programs):
    command = program({"SSH": SSH, "IPMI": IPMI})
    assert "ssh" == command.arguments[0]
    assert "start /system1/console" == command.arguments[-1]
    assert "admin" == command.environment["BMC_PASSWORD"]
    assert without_user(command.arguments, "-l")
    programs.discard("ssh")
    command = program({"SSH": SSH, "IPMI": IPMI})
    assert ("ipmitool", "sol", "activate") == (command.arguments[0], *command.arguments[-2:])
    assert "6230" in command.arguments
    assert "admin" == command.environment["IPMI_PASSWORD"]
    assert without_user(command.arguments, "-U")
    assert without_user(command.preparation, "-U")
    assert "PASSWORD" not in repr(command)


def without_user(arguments, option):
    """Whether the password, which is the user's name, is nowhere but in the option of the user."""
    place = arguments.index(option)
    return "admin" not in " ".join((*arguments[:place], *arguments[place + 2 :]))


@pytest.mark.parametrize(
    ("console", "missing", "words"),
    [
        (None, (), "offers no serial console by SSH or IPMI"),
        ({"SSH": SSH}, ("ssh",), "program ssh is not installed"),
        ({"IPMI": IPMI}, ("ipmitool",), "program ipmitool is not installed"),
        ({"SSH": {**SSH, "ConsoleEntryCommand": "-oProxyCommand=x"}}, (), "is no command"),
        ({"SSH": {**SSH, "ConsoleEntryCommand": "x" * 201}}, (), "is no command"),
    ],
)
def test_a_bmc_or_conductor_without_a_console_says_why(program, programs, console, missing, words):
    programs.difference_update(missing)
    with pytest.raises(NotSupported, match=words):
        program(console)


@pytest.mark.parametrize("port", ["22x", 80, 0, 65536, True, "²", [1]])
def test_a_wrong_port_of_ipmi_names_its_field(port):
    node = LocalBmc().node(
        driver="ipmi",
        interfaces={"console": "ipmitool-socat"},
        driver_info={"ipmi_address": "192.0.2.1", "ipmi_terminal_port": port},
    )
    with pytest.raises(InvalidDriverInfo, match=r"driver_info/ipmi_terminal_port: must be"):
        node.driver.validate("console", node)


def test_a_console_needs_ipmi_2(monkeypatch):
    info = {"ipmi_address": "192.0.2.1", "ipmi_protocol_version": "1.5"}
    node = LocalBmc().node(
        driver="ipmi", interfaces={"console": "ipmitool-socat"}, driver_info=info
    )
    with pytest.raises(
        InvalidDriverInfo, match=r"ipmi_protocol_version: a console needs IPMI 2\.0"
    ):
        node.driver.validate("console", node)
