"""A temporary TLS certificate for loopback."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class LoopbackCertificate:
    """A self-signed certificate for `127.0.0.1` in a temporary directory.

    Example:
        >>> certificate = LoopbackCertificate()
        >>> certificate.path.name
        'certificate.pem'
        >>> certificate.remove()
    """

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="leonidas-simulator-")
        self.path = Path(self._directory.name) / "certificate.pem"
        key = ec.generate_private_key(ec.SECP256R1())
        self.path.write_bytes(_self_signed(key).public_bytes(serialization.Encoding.PEM))
        self.server_context = self._make_server_context(key)

    def _make_server_context(self, key: ec.EllipticCurvePrivateKey) -> ssl.SSLContext:
        # The ssl module reads keys only from files, so the key is on disk for a moment.
        key_path = self.path.with_name("key.pem")
        key_path.touch(mode=0o600)
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path, key_path)
        key_path.unlink()
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts this certificate and nothing else."""
        return ssl.create_default_context(cafile=str(self.path))

    def remove(self) -> None:
        """Remove the certificate's directory."""
        self._directory.cleanup()


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Gemini Live simulator")])
    now = dt.datetime.now(dt.UTC)
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.IPv4Address("127.0.0.1")),
    ]
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=7))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
