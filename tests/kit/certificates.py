"""Certificates of an authority of one's own, for servers and clients on loopback."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Authority"]

_HOUR = timedelta(hours=1)


@final
class Authority:
    """Who signs certificates, which it writes into a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"authority {folder.name}")])
        self.ca = str(folder / "ca.pem")
        """The file of its own certificate."""
        made = self._start(self._name, self._key).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        self._write("ca.pem", made.sign(self._key, hashes.SHA256()))

    def sign(self, name: str, *, hours: int = 24) -> tuple[str, str]:
        """The files of a certificate and of its key; one of less than 0 hours is over."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        made = self._start(subject, key, hours).add_extension(address, False)
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = self._folder / f"{name}.key"
        file.touch(0o600)
        file.write_bytes(text)
        return self._write(f"{name}.pem", made.sign(self._key, hashes.SHA256())), str(file)

    def _start(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, hours: int = 24) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        made = made.serial_number(x509.random_serial_number())
        return made.not_valid_before(now - 48 * _HOUR).not_valid_after(now + hours * _HOUR)

    def _write(self, name: str, certificate: x509.Certificate) -> str:
        file = self._folder / name
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return str(file)
