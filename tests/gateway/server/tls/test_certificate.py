"""What is read from certificates, compared with what the package cryptography reads."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from strowger_gateway.gateway.server.tls.certificate import own_certificate
from strowger_gateway.gateway.server.tls.files import TlsFiles
from strowger_gateway.schemas.secret import Secret
from tests.examples import examples

KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.NoEncryption(),
)
KINDS = (NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COMMON_NAME)


@st.composite
def subjects(draw: st.DrawFn) -> x509.Name:
    texts = st.text(
        st.characters(codec="utf-8", categories=["L", "N", "P", "S", "M"])
        | st.sampled_from(' ,+"\\<>;=#'),
        min_size=1,
        max_size=20,
    )
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=0, max_size=3))
    return x509.Name([x509.NameAttribute(kind, draw(texts)) for kind in kinds])


@settings(max_examples=examples(60), deadline=None)
@given(subjects(), st.integers(-400, 400))
def test_subject_names_and_dates_are_those_that_another_library_reads(
    subject: x509.Name, days: int
) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(until - timedelta(days=500))
        .not_valid_after(until)
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("a.example"), x509.UniformResourceIdentifier("spiffe://a/b")]
            ),
            critical=False,
        )
        .sign(KEY, hashes.SHA256())
    )
    files = TlsFiles(
        cert=made.public_bytes(serialization.Encoding.PEM),
        key=PEM,
        key_password=Secret(""),
        client_ca=None,
        client_required=False,
        min_version="1.2",
    )

    found = own_certificate(files)

    assert found.subject == subject.rfc4514_string()
    assert found.names == ("a.example", "spiffe://a/b")
    assert found.not_after == until.timestamp()
    assert found.name == (found.subject or "a.example")


def test_a_certificate_for_clients_only_is_not_accepted_for_the_listener() -> None:
    now = datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(KEY, hashes.SHA256())
    )
    files = TlsFiles(
        cert=made.public_bytes(serialization.Encoding.PEM),
        key=PEM,
        key_password=Secret(""),
        client_ca=None,
        client_required=False,
        min_version="1.2",
    )
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        own_certificate(files)
