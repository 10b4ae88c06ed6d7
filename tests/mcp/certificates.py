"""Certificates for loopback, right ones and wrong ones."""

import datetime as dt
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """Signs certificates; `file` holds its own."""

    def __init__(self, directory, name="authority"):
        self._directory, self._name = directory, _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = self._certificate(self._name, self._key.public_key(), is_authority=True)
        self.file = directory / f"{name}.pem"
        self.file.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def issue(self, name, *, host="127.0.0.1", begins=-DAY, ends=DAY, signs_itself=False):
        """The files of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certificate(
            _name(name),
            key.public_key(),
            host=host,
            begins=begins,
            ends=ends,
            signer=(_name(name), key) if signs_itself else None,
        )
        files = [self._directory / f"{name}{ending}" for ending in (".pem", ".key")]
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files

    def _certificate(
        self,
        subject,
        public_key,
        *,
        host=None,
        begins=-DAY,
        ends=DAY,
        is_authority=False,
        signer=None,
    ):
        now = dt.datetime.now(dt.UTC)
        issuer, key = signer or (self._name, self._key)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + ends)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if host is not None:
            is_address = host[0].isdigit()
            kind = x509.IPAddress(ipaddress.ip_address(host)) if is_address else x509.DNSName(host)
            names = x509.SubjectAlternativeName([kind])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(key, hashes.SHA256())
