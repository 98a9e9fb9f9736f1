"""Settings with secrets: files that hold them, and URLs whose passwords no message shows."""

from urllib.parse import quote

import pytest
from kombu import Connection

from app.config import redis_url
from app.config.settings import SettingsError, load
from app.db.url import engine_url


def test_a_secret_is_read_from_the_file_that_a_variable_names(tmp_path):
    (tmp_path / "url").write_text("redis://:pw@h/0\n")
    settings = load({"INGOT_BROKER_URL_FILE": str(tmp_path / "url")})
    assert "redis://:pw@h/0" == settings.broker.url
    assert "INGOT_BROKER_URL_FILE" == settings.origins["broker.url"]
    assert () == settings.warnings
    # an option of this name is the option, not a file with another one
    assert "k" == load({"INGOT_DATABASE_SECRETS_KEY_FILE": "k"}).database.secrets_key_file
    assert "INGOT_API_PORT_FILE" in load({"INGOT_API_PORT_FILE": "x"}).warnings[0]


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"INGOT_BROKER_URL_FILE": "/no/such"}, "INGOT_BROKER_URL_FILE: /no/such: No such file"),
        ({"INGOT_BROKER_URL_FILE": "/"}, "INGOT_BROKER_URL_FILE: /: Is a directory"),
        ({"INGOT_BROKER_URL_FILE": "/x", "INGOT_BROKER_URL": "redis://h"}, "exclude each other"),
        (
            {"INGOT_BROKER_URL": "redis://:change-me@h/0"},
            r"INGOT_BROKER_URL: \[broker\]url contains 'change-me'",
        ),
        ({"INGOT_KEYSTONE_AUTHTOKEN_PASSWORD": "change-me"}, "replace it by a secret of your own"),
    ],
)
def test_an_unusable_secret_is_refused_with_its_setting(environ, message):
    with pytest.raises(SettingsError, match=message):
        load(environ)


def test_a_password_on_the_command_line_is_refused():
    with pytest.raises(
        SettingsError, match=r"\[broker\]url: .* set INGOT_BROKER_URL, or INGOT_BROKER_URL_FILE"
    ):
        load({}, flags={"broker.url": "redis://:pw@h/0"})
    assert "redis://h/0" == load({}, flags={"broker.url": "redis://h/0"}).broker.url


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("INGOT_API_PUBLIC_ENDPOINT", "bm.example.org"),
        ("INGOT_API_PUBLIC_ENDPOINT", "https:///bm"),
        ("INGOT_API_PUBLIC_ENDPOINT", "https://user:secret@bm.example.org"),
        ("INGOT_API_PUBLIC_ENDPOINT", "https://bm.example.org/?a=secret"),
        ("INGOT_DEPLOY_EXTERNAL_CALLBACK_URL", "ftp://x"),
        ("INGOT_DEPLOY_HTTP_URL", "http://h:port"),
        ("INGOT_DEPLOY_EXTERNAL_HTTP_URL", "10.0.0.1:8080"),
        ("INGOT_CONDUCTOR_DEPLOY_KERNEL", "nonsense"),
        ("INGOT_CONDUCTOR_RESCUE_RAMDISK", "/srv/ramdisk"),
        ("INGOT_CONDUCTOR_BOOTLOADER_BY_ARCH", "x86_64:https://h/a,aarch64:a"),
        ("INGOT_KEYSTONE_AUTHTOKEN_AUTH_URL", "keystone:5000"),
        ("INGOT_CINDER_AUTH_URL", "https://"),
        ("INGOT_CINDER_ENDPOINT_OVERRIDE", "cinder:8776"),
        ("INGOT_ANACONDA_DEFAULT_KS_TEMPLATE", "/srv/ks.cfg"),
        ("INGOT_API_FLOWER_URL", "https://user:secret@flower.example.org"),
        # characters that a header, a link or a boot script would cut or change
        ("INGOT_API_PUBLIC_ENDPOINT", "https://bm example.org"),
        ("INGOT_API_PUBLIC_ENDPOINT", "https://bm.example.org\t/bm"),
        ("INGOT_API_PUBLIC_ENDPOINT", "https://bm.example.org\\bm"),
        ("INGOT_DEPLOY_HTTP_URL", "http://<address>:8080"),
        ("INGOT_DEPLOY_HTTP_URL", "http://bücher.example"),
        ("INGOT_CONDUCTOR_DEPLOY_KERNEL", "http://h/my kernel"),
    ],
)
def test_a_url_without_scheme_or_host_is_refused_by_name(name, value):
    with pytest.raises(SettingsError, match=f"^{name}: expected a URL") as refusal:
        load({name: value})
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("INGOT_API_PUBLIC_ENDPOINT", "https://bm.example.org/bm/"),
        ("INGOT_API_PUBLIC_ENDPOINT", "http://[2001:db8::1]:6385"),
        ("INGOT_API_PUBLIC_ENDPOINT", "HTTPS://bm_1.example.org./b%20m/~a;b"),
        ("INGOT_CONDUCTOR_DEPLOY_KERNEL", "file:///srv/kernel"),
        ("INGOT_CONDUCTOR_DEPLOY_KERNEL_BY_ARCH", "x86_64:https://h/a,aarch64:file:///b"),
    ],
)
def test_urls_of_settings(name, value):
    load({name: value})


@pytest.mark.parametrize("name", ["INGOT_API_TRUSTED_PROXIES", "INGOT_AGENT_DENIED_NETWORKS"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("10.0.0.7/8", "expected 10.0.0.0/8"),
        ("10.0.0.0/33", "expected one such as 192.0.2.0/24"),
        ("proxy.example", "expected one such as 192.0.2.0/24"),
    ],
)
def test_the_refusal_of_a_network_says_what_is_accepted(name, value, expected):
    with pytest.raises(SettingsError, match=f"^{name}: {value!r} is .*{expected}"):
        load({name: value})


#: Parts of a password between which each of the characters is, which a URL must not contain as it is.
PARTS = "k1wi", "m4ngo"
RESERVED = "@/?#:,[] %\\"
URLS = {
    "INGOT_DATABASE_CONNECTION": "postgresql://u:{}@h/ingot",
    "INGOT_BROKER_URL": "redis://u:{}@h:6379/0",
    "INGOT_BROKER_MESSAGES_URL": "amqp://u:{}@h:5672/v",
    "INGOT_OSLO_MESSAGING_NOTIFICATIONS_TRANSPORT_URL": "rabbit://u:{}@h:5672/v",
    "INGOT_OIDC_ISSUER": "https://u:{}@h/realm",
    "INGOT_API_PUBLIC_ENDPOINT": "https://u:{}@h/",
    "INGOT_API_FLOWER_URL": "https://u:{}@h:x/",
    "INGOT_KEYSTONE_AUTHTOKEN_AUTH_URL": "https://u:{}@h:x/",
    "INGOT_TRACING_ENDPOINT": "https://u:{}@h/v1/traces",
    "INGOT_CONDUCTOR_DEPLOY_KERNEL": "https://u:{}@h:x/kernel",
    "INGOT_CONDUCTOR_DEPLOY_KERNEL_BY_ARCH": "x86_64:ftp://u:{}@h/kernel",
}
OTHER_FORMS = {
    "INGOT_BROKER_URL": [
        "sentinel://u:{}@h/m",
        "redis+socket://u:{}@/r.sock",
        "rediss://u:{}@h",
        "u:{}@h",
    ],
    "INGOT_DATABASE_CONNECTION": [
        "u:{}@h/ingot",
        "mysql:{}@h",
        "postgresql://u:{}@h1,h2/ingot",
        "sqlite:{}",
    ],
    "INGOT_BROKER_MESSAGES_URL": ["u:{}@h", "amqps://u:{}@h:0/"],
    "INGOT_OSLO_MESSAGING_NOTIFICATIONS_TRANSPORT_URL": [
        "rabbit://u:{}@h,u:{}@i/",
        "kafka://u:{}@h",
    ],
}
ALL_URLS = [*URLS.items(), *((name, url) for name, urls in OTHER_FORMS.items() for url in urls)]


@pytest.mark.parametrize("character", RESERVED)
@pytest.mark.parametrize(("name", "url"), ALL_URLS)
def test_no_refusal_of_a_url_has_a_part_of_its_password(name, url, character):
    password = character.join(PARTS)
    try:
        settings = load({name: url.replace("{}", password)})
    except SettingsError as refusal:
        assert not [part for part in PARTS if part in str(refusal)]  # noqa: PT017 - it may be accepted
        return
    if name == "INGOT_DATABASE_CONNECTION":  # accepted: then all of it is known as the password
        try:
            text = engine_url(settings.database.connection).render_as_string()
        except ValueError as error:
            text = str(error)
        assert not [part for part in PARTS if part in text]
    if name == "INGOT_BROKER_URL":
        parsed = redis_url.parse(settings.broker.url)
        assert not [
            part for part in PARTS if part in f"{parsed.hosts} {parsed.path} {parsed.master}"
        ]
    if name == "INGOT_BROKER_MESSAGES_URL":
        text = Connection(settings.broker.messages_url).as_uri()
        assert not [part for part in PARTS if part in text]


@pytest.mark.parametrize(
    "name", ["INGOT_DATABASE_CONNECTION", "INGOT_BROKER_URL", "INGOT_BROKER_MESSAGES_URL"]
)
def test_a_password_that_is_percent_encoded_is_accepted(name):
    load({name: URLS[name].replace("{}", quote(RESERVED.join(PARTS), ""))})
