"""Settings that stop a role at its start: one line on standard error, exit status 1."""

import base64
import datetime as dt
import os

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support import programs
from tests.support.fleet import PATIENCE, until
from tests.support.ports import free_port


def environment(folder, **settings):
    ours = {name: value for name, value in os.environ.items() if not name.startswith("INGOT_")}
    alone = {
        "INGOT_DATABASE_CONNECTION": f"sqlite:///{folder}/ingot.db",
        "INGOT_BROKER_URL": "redis://127.0.0.1:1/0",
    }
    return ours | alone | {"INGOT_DATA_DIR": str(folder / "data")} | settings


def refused(folder, *command, **settings):
    """Run a command that refuses to start, and return its error line."""
    environ = environment(folder, **settings)
    result = programs.run("workers.cli:main", argv=command, environ=environ)
    assert 1 == result.status, result.err
    assert "" == result.out
    lines = [line for line in result.err.splitlines() if line.startswith("ingot: ")]
    assert 1 == len(lines), result.err
    assert "Traceback" not in result.err
    return lines[0].removeprefix("ingot: ")


@pytest.mark.parametrize("other_key", [None, base64.b64encode(bytes(32))], ids=["none", "another"])
@pytest.mark.parametrize("command", [("up", "--port", "0"), ("db", "upgrade")], ids=["up", "db"])
def test_a_start_without_the_key_of_its_database_writes_no_new_one(tmp_path, command, other_key):
    settings = {"INGOT_DATABASE_CONNECTION": "", "INGOT_BROKER_URL": ""}
    environ, key = environment(tmp_path, **settings), tmp_path / "data.key"
    result = programs.run("workers.cli:main", argv=("db", "upgrade"), environ=environ)
    assert 0 == result.status, result.err
    first_key = key.read_bytes()
    key.unlink()
    if other_key is not None:
        key.write_bytes(other_key)
        key.chmod(0o600)
    line = refused(tmp_path, *command, **settings)
    assert "secrets_key_file is needed" in line or "needs master key" in line
    assert other_key == (key.read_bytes() if key.exists() else None)
    key.write_bytes(first_key)
    result = programs.run("workers.cli:main", argv=("db", "upgrade"), environ=environ)
    assert 0 == result.status, result.err


@pytest.mark.parametrize("wrong", ["another", "none"])
def test_a_conductor_without_the_key_of_its_database_prints_one_line(tmp_path, redis_url, wrong):
    settings = {"INGOT_BROKER_URL": redis_url}
    key = tmp_path / "master.key"
    key.write_bytes(base64.b64encode(bytes(range(32))))
    key.chmod(0o600)
    environ = environment(tmp_path, **settings, INGOT_DATABASE_SECRETS_KEY_FILE=str(key))
    result = programs.run("workers.cli:main", argv=("db", "upgrade"), environ=environ)
    assert 0 == result.status, result.err
    if wrong == "another":
        key.write_bytes(base64.b64encode(bytes(32)))
        settings["INGOT_DATABASE_SECRETS_KEY_FILE"] = str(key)
    line = refused(tmp_path, "conductor", "--name", "x", **settings)
    assert "secrets_key_file is needed" in line or "needs master key" in line


TIE = "20"


@pytest.mark.parametrize(
    "command", [("up", "--port", "0"), ("conductor", "--name", "x")], ids=["up", "conductor"]
)
def test_nothing_that_serves_no_hardware_type_starts(tmp_path, redis_url, command):
    """Two steps that every hardware type has get the same priority."""
    line = refused(
        tmp_path, *command,
        INGOT_BROKER_URL=redis_url,
        INGOT_DEPLOY_CREATE_CONFIGURATION_PRIORITY=TIE,
        INGOT_DEPLOY_DELETE_CONFIGURATION_PRIORITY=TIE,
    )  # fmt: skip
    assert "no hardware type is loaded" in line
    assert "redfish: raid interface" in line
    assert "[deploy]create_configuration_priority" in line


@pytest.fixture
def pair(tmp_path):
    """Factory of certificates for 127.0.0.1: (path of the certificate, path of the key)."""

    def make(name, passphrase=None):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
        now = dt.datetime.now(dt.UTC)
        signed = (
            x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .sign(key, hashes.SHA256())
        )
        encryption = (
            serialization.BestAvailableEncryption(passphrase)
            if passphrase
            else serialization.NoEncryption()
        )
        certificate, private = tmp_path / f"{name}.crt", tmp_path / f"{name}.key"
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
            )
        )
        return str(certificate), str(private)

    return make


@pytest.mark.parametrize("command", ["api", "up"])
def test_https_without_a_certificate_stops_the_start_of_the_api(tmp_path, command, pair):
    certificate, _ = pair("one")
    broker = {"INGOT_BROKER_URL": ""} if command == "up" else {}
    settings = {"INGOT_API_ENABLE_SSL_API": "true", "INGOT_API_PORT": str(free_port()), **broker}
    assert (
        "[api]cert_file is not set, and [api]enable_ssl_api needs it"
        == refused(tmp_path, command, **settings)
    )  # fmt: skip
    settings["INGOT_API_CERT_FILE"] = certificate
    assert (
        "[api]key_file is not set, and [api]enable_ssl_api needs it"
        == refused(tmp_path, command, **settings)
    )  # fmt: skip


def test_a_certificate_that_cannot_be_served_is_named(tmp_path, pair):
    (certificate, key), (_, other), (locked, encrypted) = (
        pair("one"),
        pair("other"),
        pair("locked", b"secret"),
    )

    def message(cert_file, key_file):
        settings = {"INGOT_API_CERT_FILE": str(cert_file), "INGOT_API_KEY_FILE": str(key_file)}
        return refused(tmp_path, "api", INGOT_API_ENABLE_SSL_API="true", **settings)

    nowhere = tmp_path / "nowhere"
    assert f"[api]cert_file: {nowhere}: No such file or directory" == message(nowhere, key)
    assert f"[api]key_file: {tmp_path}: Is a directory" == message(certificate, tmp_path)
    for wrong in ((certificate, other), (locked, encrypted), (key, key)):
        line = message(*wrong)
        assert line.startswith("[api]cert_file, [api]key_file: "), line
        assert wrong[0] in line
        assert wrong[1] in line


def test_the_older_names_of_the_certificate_settings_are_supported(tmp_path, pair):
    certificate, key = pair("one")
    port = free_port()
    file = tmp_path / "ingot.toml"
    file.write_text(
        f'[api]\nenable_ssl_api = true\nport = {port}\n'
        f'[ssl]\ncert_file = "{certificate}"\nkey_file = "{key}"\n'
    )  # fmt: skip
    with (tmp_path / "log").open("w") as log:
        words = ("api", "--config", file)
        process = programs.start(
            "workers.cli:main", argv=words, environ=environment(tmp_path), stderr=log
        )
    try:

        def answer():
            assert process.poll() is None, (tmp_path / "log").read_text()
            try:
                # the certificate has no alternative name: it is compared, not verified
                return requests.get(f"https://127.0.0.1:{port}/", timeout=60, verify=False)
            except requests.ConnectionError:
                return None

        with pytest.warns(match="Unverified HTTPS"):
            assert 200 == until(answer, "an answer").status_code
        with pytest.raises(requests.ConnectionError):
            requests.get(f"http://127.0.0.1:{port}/", timeout=60)
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.mark.parametrize("command", ["api", "conductor", "up"])
def test_an_unknown_interface_stops_the_start_of_api_and_conductor(tmp_path, command):
    broker = {"INGOT_BROKER_URL": ""} if command == "up" else {}
    settings = {"INGOT_ENABLED_NETWORK_INTERFACES": "vxlan,noop", "INGOT_API_PORT": "0", **broker}
    assert (
        "[DEFAULT]enabled_network_interfaces: there is no network interface 'vxlan'; installed are"
        " flat, neutron, noop, switch"
    ) == refused(tmp_path, command, **settings)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "mysql+pymysql://ingot:hush@127.0.0.1/ingot",
            "mysql+pymysql:// is not a supported database",
        ),
        (
            "postgresql://ingot:hush@127.0.0.1:port/ingot",
            "the name of a host or its port is wrong: expected postgresql://USER:PASSWORD@HOST/NAME",
        ),
    ],
)
def test_an_unsupported_database_url_is_reported_in_one_line(tmp_path, url, message):
    line = refused(tmp_path, "db", "upgrade", INGOT_DATABASE_CONNECTION=url)
    assert message in line
    assert "hush" not in line


def test_an_unknown_group_of_file_servers_stops_the_start(tmp_path):
    settings = {"INGOT_DEPLOY_SERVED_GROUP": "no-such-group", "INGOT_BROKER_URL": ""}
    line = refused(tmp_path, "up", **settings)
    assert line.startswith("[deploy]served_group: no-such-group: ")


@pytest.mark.parametrize(
    ("command", "setting"), [("api", "METRICS_PORT"), ("up", "METRICS_PORT"), ("up", "DEPLOY_HTTP_PORT")]
)  # fmt: skip
def test_the_port_of_the_api_for_another_server_stops_the_start(tmp_path, command, setting):
    broker = {"INGOT_BROKER_URL": ""} if command == "up" else {}
    port = str(free_port())
    line = refused(tmp_path, command, INGOT_API_PORT=port, **{f"INGOT_{setting}": port}, **broker)
    assert f"port {port} of 127.0.0.1: it is [api]port, too" == line
