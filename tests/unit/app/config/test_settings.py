"""Sources of settings, and messages about wrong ones."""

import ast
import re
from pathlib import Path

import pytest

from app.config import option_values, options
from app.config.description import describe
from app.config.ironic_options import IRONIC_ONLY
from app.config.option_types import transport_urls
from app.config.removed_options import REMOVED
from app.config.settings import Settings, SettingsError, load

ROOT = Path(__file__).parents[4]


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(file):
    path = file("[api]\nport = 1\nmax_limit = 2\napi_workers = 3\n")
    environ = {"INGOT_CONFIG": str(path), "INGOT_API_PORT": "4", "INGOT_API_MAX_LIMIT": "5"}
    settings = load(environ, flags={"api.port": 6, "api.host_ip": None})
    assert (6, 5, 3, "127.0.0.1") == (
        settings.api.port,
        settings.api.max_limit,
        settings.api.api_workers,
        settings.api.host_ip,
    )
    origins = [settings.origins[f"api.{name}"] for name in ("port", "max_limit", "api_workers")]
    assert ["flag --port", "INGOT_API_MAX_LIMIT", f"{path}: [api]api_workers"] == origins
    assert "default" == settings.origins["api.host_ip"]


def test_options_have_ironics_groups():
    values = Settings().options()
    assert values["conductor"]["automated_clean"] is True
    assert values["DEFAULT"]["enabled_hardware_types"] is None
    assert values["deploy"]["erase_devices_priority"] is None
    assert values["agent"]["require_tls"] is True
    assert values["api"]["restrict_lookup"] is True
    assert "0" == values["fake"]["power_delay"]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("INGOT_ENABLED_HARDWARE_TYPES", "redfish, ipmi", ("redfish", "ipmi")),
        ("INGOT_ENABLED_HARDWARE_TYPES", "", None),
        ("INGOT_CONDUCTOR_AUTOMATED_CLEAN", "False", False),
        ("INGOT_DEPLOY_ERASE_DEVICES_PRIORITY", "2.5", 2.5),
        ("INGOT_FAKE_POWER_DELAY", "0.5,2", "0.5,2"),
        (
            "INGOT_CONDUCTOR_CLEAN_STEP_PRIORITY_OVERRIDE",
            "deploy.erase_devices:0,bios.reset:5.5",
            {"deploy.erase_devices": 0, "bios.reset": 5.5},
        ),
        (
            "INGOT_CONDUCTOR_DEPLOY_KERNEL_BY_ARCH",
            "x86_64:http://h:80/k",
            {"x86_64": "http://h:80/k"},
        ),
    ],
)
def test_the_environment_is_read_by_the_type_of_the_option(name, text, expected):
    (option,) = [candidate for candidate in options.options(Settings) if candidate.variable == name]
    assert expected == load({name: text}).options()[option.group][option.name]


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"INGOT_API_PORT": "x"}, "INGOT_API_PORT: 'x' is not a whole number"),
        ({"INGOT_API_PORT": "65536"}, "INGOT_API_PORT: 65536 is more than 65535"),
        (
            {"INGOT_CONDUCTOR_AUTOMATED_CLEAN": "maybe"},
            "INGOT_CONDUCTOR_AUTOMATED_CLEAN: 'maybe' is not true or false",
        ),
        (
            {"INGOT_AUTH_STRATEGY": "http_basci"},
            (
                "INGOT_AUTH_STRATEGY: 'http_basci' is not one of noauth, http_basic, local,"
                " keystone;"
                " did you mean 'http_basic'?"
            ),
        ),
        (
            {"INGOT_FAKE_BIOS_DELAY": "2,1"},
            "INGOT_FAKE_BIOS_DELAY: '2,1' is not a delay: 'a' or 'a,b' seconds with a <= b",
        ),
        ({"INGOT_CONDUCTOR_LEASE_TTL": "nan"}, "INGOT_CONDUCTOR_LEASE_TTL: 'nan' is not a number"),
        (
            {"INGOT_CONDUCTOR_HEARTBEAT_INTERVAL": "14"},
            "[conductor]heartbeat_timeout: 15 is less than twice heartbeat_interval, which is 14",
        ),
        (
            {"INGOT_CONDUCTOR_CONDUCTOR_CLEANUP_TIMEOUT": "44"},
            (
                "[conductor]conductor_cleanup_timeout: 44 is less than three times"
                " heartbeat_timeout, which is 15"
            ),
        ),
        (
            {"INGOT_IPMI_CIPHER_SUITE_VERSIONS": "3,256"},
            (
                "INGOT_IPMI_CIPHER_SUITE_VERSIONS: '256' is not a cipher suite: a number from 0 to"
                " 255"
            ),
        ),
        ({"INGOT_CONFIG": "/nowhere.toml"}, "/nowhere.toml: No such file or directory"),
        (
            {"INGOT_DEPLOY_CONFIGDRIVE_USE_OBJECT_STORE": "true"},
            "INGOT_DEPLOY_CONFIGDRIVE_USE_OBJECT_STORE: must be false: Ingot has no object store",
        ),
    ],
)
def test_a_bad_value_is_named_in_one_line(environ, message):
    with pytest.raises(SettingsError) as error:
        load(environ)
    assert message == str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://ingot:hush@db/ingot",
        "mysql+pymysql://ingot:hush@db/ingot",
        "postgresql+psycopg2://ingot:hush@db/ingot",
        "oracle://ingot:hush@db",
        "hush",
    ],
)
def test_an_unsupported_database_is_refused_with_the_supported_ones(url):
    with pytest.raises(SettingsError) as error:
        load({"INGOT_DATABASE_CONNECTION": url})
    line = str(error.value)
    assert line.startswith("INGOT_DATABASE_CONNECTION: ")
    assert url.partition("://")[0] in line or "://" not in url
    assert line.endswith(
        "expected SQLite (sqlite:///FILE) or PostgreSQL (postgresql://USER:PASSWORD@HOST/NAME)"
    )
    assert "hush" not in line


@pytest.mark.parametrize(
    "url", ["", "sqlite:////srv/ingot.db", "postgresql://db/ingot", "postgresql+psycopg://db/ingot"]
)
def test_a_supported_database_is_accepted(url):
    assert url == load({"INGOT_DATABASE_CONNECTION": url}).database.connection


TRANSPORT = "INGOT_OSLO_MESSAGING_NOTIFICATIONS_TRANSPORT_URL"


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("rabbit://u:p@one:5672/", ["amqp://u:p@one:5672/"]),
        ("rabbit://u:p@one,v:q@[::1]:5673/stack", ["amqp://u:p@one/stack", "amqp://v:q@[::1]:5673/stack"]),
        ("amqps://one", ["amqps://one"]),
    ],
)  # fmt: skip
def test_a_transport_url_names_hosts(url, hosts):
    load({TRANSPORT: url, "INGOT_NOTIFICATION_LEVEL": "info"})
    assert hosts == transport_urls(url)


@pytest.mark.parametrize(
    "url",
    ["kafka://one", "rabbit://", "rabbit://u:hush@", "rabbit://one,", "rabbit://one:x", "one:5672",
     "rabbit://u:hush@one/?ssl=1"],
)  # fmt: skip
def test_a_wrong_transport_url_is_refused_and_not_shown(url):
    with pytest.raises(SettingsError, match=f"{TRANSPORT}: expected rabbit://, amqp://") as error:
        load({TRANSPORT: url})
    assert "hush" not in str(error.value)


def test_notifications_need_a_transport_url():
    with pytest.raises(
        SettingsError, match=r"transport_url: \[DEFAULT\]notification_level needs it"
    ):
        load({"INGOT_NOTIFICATION_LEVEL": "info"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("INGOT_VERSIONED_NOTIFICATIONS_TOPICS", ""),
        ("INGOT_VERSIONED_NOTIFICATIONS_TOPICS", "a" * 241),
        ("INGOT_CONTROL_EXCHANGE", ""),
        ("INGOT_NOTIFICATION_LEVEL", "loud"),
    ],
)
def test_a_wrong_setting_of_notifications_is_refused(name, value):
    with pytest.raises(SettingsError, match=name):
        load({name: value})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[conductor]\nautomated_claen = true",
            (
                "[conductor]automated_claen: there is no such setting;"
                " the nearest is [conductor]automated_clean"
            ),
        ),
        (
            "[conducto]\nautomated_clean = true",
            (
                "[conducto]automated_clean: there is no such setting;"
                " the nearest is [conductor]automated_clean"
            ),
        ),
        ("[api]\nport = '80a'", "[api]port: '80a' is not a whole number"),
        ("[api]\nport = true", "[api]port: True is not a whole number"),
        ("host_ip = '::'", "host_ip stands outside of a table, as [DEFAULT]"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_the_file(file, text, message):
    path = file(text)
    with pytest.raises(SettingsError) as error:
        load({}, path)
    assert f"{path}: {message}" == str(error.value)


def test_a_file_that_is_not_toml_is_refused(file):
    with pytest.raises(SettingsError, match=r"ingot.toml: not TOML: .*line 1"):
        load({}, file("port: 80"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SWIFT_AUTH_URL", "[swift] is a group of Ironic's options"),
        ("DNSMASQ_DHCP_HOSTSDIR", "[dnsmasq] is a group of Ironic's options"),
        ("VNC_ENABLED", "Ingot does not use this option of Ironic"),
        ("IRONIC_NETWORKING_JSON_RPC_PORT", "[ironic_networking"),
        ("CONDUCTOR_PERIODIC_MAX_WORKERS", "Ingot does not use this option of Ironic"),
        ("PECAN_DEBUG", "Ingot does not use this option of Ironic"),
    ],
)
def test_a_variable_of_an_unused_option_of_ironic_is_named_as_such(name, words):
    (warning,) = load({f"INGOT_{name}": "x"}).warnings
    assert warning.startswith(f"INGOT_{name}: {words}")
    assert "nearest" not in warning


def test_an_unknown_variable_only_warns_and_names_the_nearest():
    (warning,) = load({"INGOT_API_PROT": "1"}).warnings
    assert (
        "INGOT_API_PROT: there is no such setting, it is ignored; the nearest is INGOT_API_PORT"
        == warning
    )


def test_an_option_that_only_ironic_uses_warns_in_the_file(file):
    path = file("[conductor]\nperiodic_max_workers = 8\n[swift]\nanything = 1\n")
    warnings = load({}, path).warnings
    assert [
        (
            f"{path}: [conductor]periodic_max_workers: Ingot does not use this option of Ironic; it"
            " is ignored"
        ),
        (
            f"{path}: [swift]anything: [swift] is a group of Ironic's options that Ingot does"
            " not use; it is ignored"
        ),
    ] == list(warnings)


@pytest.mark.parametrize("suffix", ["toml", "conf"])
@pytest.mark.parametrize("place", REMOVED)
def test_an_option_of_an_earlier_release_warns_and_says_what_holds(tmp_path, place, suffix):
    group, _, name = place.partition(".")
    path = tmp_path / f"ingot.{suffix}"
    path.write_text(f"[{group}]\n{name} = 7\n")
    words = f"this is no longer an option, it is ignored: {REMOVED[place]}"
    assert (f"{path}: [{group}]{name}: {words}",) == load({}, path).warnings
    variable = f"INGOT_{group}_{name}".upper()
    assert (f"{variable}: {words}",) == load({variable: "7"}).warnings


def test_no_option_of_an_earlier_release_is_one_now():
    names = {f"{option.group}.{option.name}" for option in options.options(Settings)}
    assert set() == names & set(REMOVED)
    assert len(REMOVED) == 25


@pytest.mark.parametrize("old", ["clean_nodes", "automated_clean_enable"])
def test_a_deprecated_name_is_used_with_a_warning_unless_the_current_one_is_set(file, old):
    settings = load({}, file(f"[conductor]\n{old} = false"))
    assert settings.conductor.automated_clean is False
    assert settings.warnings[0].endswith("is deprecated: it is [conductor]automated_clean now")
    both = file(f"[conductor]\nautomated_clean = true\n{old} = false")
    assert load({}, both).conductor.automated_clean is True


def test_no_option_is_both_used_and_unused_and_no_variable_sets_two():
    all_options = list(options.options(Settings))
    variables = [option.variable for option in all_options]
    assert sorted(set(variables)) == sorted(variables)
    both = [
        str(option) for option in all_options if option.name in IRONIC_ONLY.get(option.group, ())
    ]
    assert [] == both


def test_every_default_is_an_accepted_value():
    for option in options.options(Settings):
        assert option.default is None or option.default == option_values.convert(
            option, option.default
        ), option


def test_the_description_shows_all_values_except_secrets():
    settings = load(
        {
            "INGOT_DATABASE_CONNECTION": "postgresql://ingot:hush@db/ingot",
            "INGOT_BROKER_URL": "redis://:hush@redis:6379/0",
            "INGOT_KEYSTONE_AUTHTOKEN_PASSWORD": "hush",
        }
    )
    described = {(entry.group, entry.name): entry for entry in describe(settings)}
    assert len(list(options.options(Settings))) == len(described)
    connection = described["database", "connection"]
    assert ("postgresql://ingot:******@db/ingot", "INGOT_DATABASE_CONNECTION") == (
        connection.value,
        connection.origin,
    )
    assert "redis://:******@redis:6379/0" == described["broker", "url"].value
    assert "******" == described["keystone_authtoken", "password"].value
    assert "hush" not in str([entry.value for entry in described.values()])
    assert all(entry.help for entry in described.values())


def test_every_setting_is_read_by_the_code():
    """A file that reads a setting contains its name, and its group or an alias of the group."""
    read_together = {  # names that their reader composes or does not need -> the reader
        r"database\..*": "app/config/settings.py: fields(self)",
        r"keystone_authtoken\..*": "app/api/authentication/keystone.py: fields(options)",
        r"(cinder|glance|neutron|nova)\..*": "drivers/net/keystone.py: options.items()",
        r"switch\.\w+_network": "drivers/core/kinds/agent_networks.py: {purpose}_network",
        r"DEFAULT\.enabled_\w+_interfaces": "app/runtime.py: default.enabled_interfaces",
        r"DEFAULT\.default_\w+_interface": "app/runtime.py: default.default_interfaces",
        r"console\.(socat|port|tcp|history)_.*": "workers/consoles/session.py: Console",
        r"api\.disallow_(clean|deploy|service)_steps": "app/lifecycle/flows.py: disallow_clean_steps",
        r"conductor\.(clean|verify)_step_priority_override": "drivers/core/steps.py: PRIORITY_OVERRIDES",
        r"conductor\.max_concurrent_(clean|deploy)": "app/lifecycle/flows.py: max_concurrent_deploy",
        r"conductor\.poweroff_in_(clean|service)fail": "app/lifecycle/flows.py: poweroff_in_cleanfail",
        r"conductor\.(deploy|rescue)_(kernel|ramdisk)(_by_arch)?": "drivers/boot/ramdisks.py: {kind}_{",
        r"(pxe|redfish)\.kernel_append_params": "drivers/boot/command_line.py: options[group]",
        r"deploy\.(delete|create)_configuration_priority": "drivers/agent/raid.py: priority_settings",
        r"deploy\.configdrive_use_object_store": "app/config/machine_settings.py: check=must_be_false",
    }
    words = {path: _words(path) for path in _sources()}
    attributes = {name: attribute for attribute, name, _ in options.groups(Settings)}
    unread = [
        str(option)
        for option in options.options(Settings)
        if not any(
            re.fullmatch(pattern, f"{option.group}.{option.name}") for pattern in read_together
        )
        and not any(
            option.name in file_words and file_words & {option.group, attributes[option.group]}
            for file_words in words.values()
        )
    ]
    assert [] == unread
    for place in read_together.values():
        path, _, text = place.partition(": ")
        assert text in (ROOT / path).read_text(), place


def _sources():
    """Source files, without those that only list settings, or fields of the API with such names."""
    tables = {
        ROOT / "app/config/settings.py",
        ROOT / "app/config/conductor_settings.py",
        ROOT / "app/config/machine_settings.py",
        ROOT / "app/config/network_settings.py",
        ROOT / "app/config/openstack_settings.py",
        ROOT / "app/config/ironic_options.py",
        ROOT / "app/api/declarations/versions.py",
    }
    return {
        path for root in ("app", "workers", "drivers") for path in (ROOT / root).rglob("*.py")
    } - tables


def _words(path):
    """Attributes, strings and names in a file, without its docstrings."""
    words = set()
    for node in ast.walk(ast.parse(path.read_text())):
        for field in ("attr", "id", "arg", "value"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                words.add(word)
    return words
