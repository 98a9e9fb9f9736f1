"""ironic.conf as configuration: its form, its references, OS_GROUP__OPTION variables, the report."""

import stat
import subprocess
import sys

import pytest
from oslo_config import cfg

from app.config import ironic_report
from app.config.ironic_report import Verdict
from app.config.settings import SettingsError, load


@pytest.fixture
def conf(tmp_path):
    """Return a function that writes an ironic.conf and returns its path."""

    def write(text, name="ironic.conf"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


REFERENCES = """
# a comment
; another one
[DEFAULT]
my_ip = 192.0.2.5
host = 'host of $my_ip'
webserver_verify_ca = "False"

[deploy]
http_url = http://$my_ip:8080
external_http_url = ${http_url}/of
http_root = $$root
[api]
public_endpoint : https://${my_ip}/$my_ip
host_ip = ::
host_ip = 192.0.2.6
[pxe]
tftp_server = ${deploy.external_http_url}
"""
PLACES = [
    "DEFAULT.my_ip", "DEFAULT.host", "DEFAULT.webserver_verify_ca", "deploy.http_url",
    "deploy.external_http_url", "deploy.http_root", "api.public_endpoint", "api.host_ip",
    "pxe.tftp_server",
]  # fmt: skip


def of_oslo(path):
    """The values that oslo.config reads from a file, by "group.name"."""
    values = cfg.ConfigOpts()
    for place in PLACES:
        group, _, name = place.partition(".")
        values.register_opt(cfg.StrOpt(name), None if group == "DEFAULT" else group)
    values([], default_config_files=[str(path)], default_config_dirs=[])
    return {
        place: values[name] if group == "DEFAULT" else values[group][name]
        for place in PLACES
        for group, _, name in [place.partition(".")]
    }


def test_values_and_references_are_those_of_oslo_config(conf):
    path = conf(REFERENCES)
    findings = {finding.place: finding for finding in ironic_report.examine(path)}
    assert of_oslo(path) == {place: findings[place].value for place in PLACES}


def test_an_ironic_conf_sets_the_service(conf):
    settings = load(
        {},
        conf(
            """
[DEFAULT]
my_ip = 192.0.2.5
enabled_hardware_types = ipmi,
    redfish
[deploy]
http_url = http://$my_ip:8080
http_root = ${DEFAULT.state_path}/httpboot
[inspector]
hooks = $default_hooks,pci-devices
[ssl]
cert_file = /etc/ssl/ironic.pem
[api]
api_workers = 0
[pxe]
pxe_append_params = nofb
"""
        ),
    )
    assert ("ipmi", "redfish") == settings.default.enabled_hardware_types
    assert "http://192.0.2.5:8080" == settings.deploy.http_url
    assert "/var/lib/ironic/httpboot" == settings.deploy.http_root
    assert ("ramdisk-error", "validate-interfaces", "ports", "architecture", "pci-devices") == (
        settings.inspector.hooks
    )
    assert "/etc/ssl/ironic.pem" == settings.api.cert_file
    assert load({}).api.api_workers == settings.api.api_workers
    assert "nofb" == settings.pxe.kernel_append_params


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[deploy]\nhttp_url = $missing", "[deploy]http_url: $missing refers to an option without"),
        (
            "[deploy]\nhttp_url = ${deploy.http_url}",
            "[deploy]http_url: ${deploy.http_url} refers to",
        ),
        ("port = 1", "not an INI file: File contains no section headers"),
        ("[api]\nport", "not an INI file: Source contains parsing errors"),
        ("[api]\nport = many", "[api]port: 'many' is not a whole number"),
        (
            "[database]\nconnection = mysql+pymysql://i:secret@h/i",
            "mysql+pymysql:// is not a support",
        ),
    ],
)
def test_a_mistake_stops_the_start_with_one_line(conf, text, message):
    with pytest.raises(SettingsError) as error:
        load({}, conf(text))
    assert message in str(error.value)
    assert "ironic.conf: " in str(error.value)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_an_option_that_nothing_knows_is_a_warning_as_for_oslo_config(conf):
    path = conf("[conductor]\nautomated_claen = true\n[swift]\nauth_url = http://n")
    assert (
        f"{path}: [conductor]automated_claen: there is no such option, it is ignored",
        (
            f"{path}: [swift]auth_url: [swift] is a group of Ironic's options that Ingot does"
            " not use; it is ignored"
        ),
    ) == load({}, path).warnings


def test_a_later_file_of_a_folder_counts_more(conf):
    conf("[api]\nport = 1\nhost_ip = $my_ip\n[DEFAULT]\nmy_ip = 192.0.2.1", "10.conf")
    conf("[api]\nport = 2", "20.conf")
    conf("[api]\nport = 3", "30.conf.bak")
    folder = conf("[DEFAULT]\nmy_ip = 192.0.2.9", "40.ini").parent
    settings = load({}, folder)
    assert (2, "192.0.2.9") == (settings.api.port, settings.api.host_ip)


def test_variables_of_oslo_config_count_more_than_a_file_and_less_than_ours(conf):
    path = conf("[api]\nport = 1\n[deploy]\nhttp_url = http://a")
    environ = {
        "OS_API__PORT": "2",
        "OS_DEPLOY__HTTP_URL": "http://b",
        "INGOT_DEPLOY_HTTP_URL": "http://c",
        "OS_DEFAULT__MY_IP": "192.0.2.7",
        "OS_AUTH_URL": "http://keystone",
        "OS_OTHER__SERVICE": "x",
    }
    settings = load(environ, path)
    assert (2, "http://c", "192.0.2.7") == (
        settings.api.port, settings.deploy.http_url, settings.default.my_ip,
    )  # fmt: skip
    assert "OS_API__PORT" == settings.origins["api.port"]
    assert not settings.warnings


REPORT = """
[DEFAULT]
debug = true
transport_url = rabbit://ironic:hunter2@mq
[api]
port = 99999
[deploy]
http_url = http://192.0.2.1
[keystone_authtoken]
password = hunter2
[swift]
auth_url = http://n
[conductor]
enable_mdns = false
power_sate = 1
"""


def test_the_report_tells_each_option_by_its_effect(conf):
    verdicts = {finding.place: finding.verdict for finding in ironic_report.examine(conf(REPORT))}
    assert {
        "api.port": Verdict.STOPS,
        "swift.auth_url": Verdict.MISSING,
        "conductor.power_sate": Verdict.UNKNOWN,
        "DEFAULT.debug": Verdict.HARMLESS,
        "DEFAULT.transport_url": Verdict.HARMLESS,
        "conductor.enable_mdns": Verdict.HARMLESS,
        "deploy.http_url": Verdict.HONOURED,
        "keystone_authtoken.password": Verdict.HONOURED,
    } == verdicts
    assert [*verdicts.values()] == sorted(verdicts.values(), key=list(Verdict).index)


def ingot(*words):
    return subprocess.run(
        [sys.executable, "-m", "workers.cli", *map(str, words)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_an_import_writes_what_counts_and_shows_no_secret(conf, tmp_path):
    toml = tmp_path / "ingot.toml"
    ended = ingot("config", "import", conf(REPORT), "--output", toml)
    assert 1 == ended.returncode, "an option would stop the start"
    assert "hunter2" not in ended.stdout + ended.stderr
    assert 0o600 == stat.S_IMODE(toml.stat().st_mode)
    settings = load({}, toml)
    assert ("http://192.0.2.1", "hunter2") == (
        settings.deploy.http_url, settings.keystone_authtoken.password,
    )  # fmt: skip
    again = ingot("config", "import", conf(REPORT), "--output", toml)
    assert f"ingot: {toml}: File exists\n" == again.stderr.replace(again.stdout, "")


def test_a_section_is_shown_without_the_word_show():
    ended = ingot("config", "api")
    assert 0 == ended.returncode, ended.stderr
    assert "[api]" in ended.stdout
    assert "[deploy]" not in ended.stdout
