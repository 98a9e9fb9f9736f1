"""Verification of a service's certificate by the command line, with real TLS on loopback."""

import datetime as dt
import ipaddress
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.cli.rest import BUNDLES, Api, trusted
from app.cli.terminal.errors import Failure, Usage
from tests.support.web import Handler, serving


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Self-signed (certificate, key) of 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    leaf = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


@pytest.fixture
def url(certificate):
    """A service on loopback with that certificate."""

    class Nothing(Handler):
        def do_GET(self):
            self.answer(200, {"here": True})

    with serving(Nothing) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        yield server.url.replace("http:", "https:")


@pytest.mark.parametrize("name", BUNDLES)
def test_a_certificate_named_in_the_environment_is_trusted_on_loopback(
    url, certificate, name, monkeypatch
):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # no proxy leads to this host
    trust = trusted({name: str(certificate[0])})
    assert {"here": True} == Api(url, trust=trust).get("nodes")


def test_an_option_takes_precedence_over_the_environment(url, certificate):
    environ = {"REQUESTS_CA_BUNDLE": __file__}
    trust = trusted(environ, str(certificate[0]))
    assert {"here": True} == Api(url, trust=trust).get("nodes")


@pytest.mark.filterwarnings("ignore")
def test_the_certificate_is_not_verified_on_request(url):
    assert {"here": True} == Api(url, trust=trusted({}, insecure=True)).get("nodes")


def test_an_unknown_certificate_is_refused_with_a_hint(url):
    with pytest.raises(Failure, match=r"CERTIFICATE_VERIFY_FAILED.*--os-cacert names"):
        Api(url, trust=trusted({})).get("nodes")


@pytest.mark.parametrize("environ", [{"SSL_CERT_FILE": "/none"}, {"REQUESTS_CA_BUNDLE": "/none"}])
def test_a_missing_ca_file_is_named(environ):
    (name,) = environ
    with pytest.raises(Usage, match=f"{name}: there is no file /none"):
        trusted(environ)
