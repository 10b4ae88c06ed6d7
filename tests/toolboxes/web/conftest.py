"""A web server, a certificate of no authority, and a call of a tool."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.toolboxes.web.servers import Service, runtime


@pytest.fixture
def service(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    service = Service()
    yield service
    service.close()


@pytest.fixture
def ask(tmp_path):
    """Call a tool of the toolbox with some settings."""

    async def asked(tool, arguments, **settings):
        async with runtime(tmp_path, **settings) as tools:
            return (await tools.execute(tool, arguments)).to_response()

    return asked


@pytest.fixture
def certificate(tmp_path):
    """A file with a key and a certificate of `page.test` of no known authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "page.test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("page.test")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "page.pem"
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    plain = serialization.NoEncryption()
    file.write_bytes(key.private_bytes(encoding, form, plain) + made.public_bytes(encoding))
    return file
