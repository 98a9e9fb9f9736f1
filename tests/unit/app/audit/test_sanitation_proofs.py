"""Signed reports are verified with the public key alone, and any change of them is seen."""

import base64
import json
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.audit import sanitation_proofs
from app.audit.sanitation_proofs import NotProven

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
PUBLIC = KEY.public_key().public_bytes_raw()
REPORT = {
    "result": "sanitized",
    "node": {"name": 'Rack 1 \u00e4\u20ac\U0001f600\x07"\\', "uuid": "1"},
    "n": 7,
}


def signed(report=REPORT, **signature):
    value = base64.b64encode(KEY.sign(sanitation_proofs.canonical(report))).decode()
    public = base64.b64encode(PUBLIC).decode()
    document = sanitation_proofs.signature_document(value, public)
    return {"uuid": "u", "report": report, "signature": {**document, **signature}}


def test_a_report_is_genuine_in_any_layout_of_its_json():
    for options in ({"indent": 4}, {"sort_keys": True, "ensure_ascii": False}):
        document = sanitation_proofs.read(json.dumps(signed(), **options).encode())
        assert REPORT == sanitation_proofs.verify(document, PUBLIC)


def test_the_signed_form_is_that_of_other_json_encoders():
    assert (
        sanitation_proofs.canonical(REPORT)
        == json.dumps(REPORT, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    )


def test_the_program_of_the_page_verifies_a_report(tmp_path, monkeypatch):
    page = Path(sanitation_proofs.__file__).parents[2] / "docs/sanitation.md"
    program = page.read_text().partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    Path("ingot.pem").write_text(sanitation_proofs.pem_of(PUBLIC))
    Path("rack1-07.json").write_text(json.dumps(signed()))
    exec(program, {})
    Path("rack1-07.json").write_text(json.dumps(signed() | {"report": REPORT | {"n": 8}}))
    with pytest.raises(InvalidSignature):
        exec(program, {})


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (signed() | {"report": REPORT | {"result": "unknown"}}, "was changed"),
        (signed() | {"report": {**REPORT, "more": 1}}, "was changed"),
        (signed(value="AAAA"), "was changed"),
        (signed(value="!"), "was changed"),
        (signed(value=None), "expected algorithm Ed25519"),
        (signed(algorithm="none"), "expected algorithm Ed25519"),
        (signed() | {"signature": None}, "is not signed"),
        (signed() | {"signature": "x"}, "expected algorithm Ed25519"),
    ],
)
def test_a_change_is_found(document, words):
    with pytest.raises(NotProven, match=words):
        sanitation_proofs.verify(document, PUBLIC)


def test_a_report_of_another_key_is_told_apart():
    other = Ed25519PrivateKey.from_private_bytes(b"o" * 32).public_key().public_bytes_raw()
    with pytest.raises(NotProven, match="another key"):
        sanitation_proofs.verify(signed(), other)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"\xff", b"{}", b'{"report": []}', b"[" * 100_000,
        b'{"report": {"result": "sanitized", "result": "unknown"}}',
    ],
)  # fmt: skip
def test_a_file_that_is_no_report_is_refused(text):
    with pytest.raises(NotProven):
        sanitation_proofs.read(text)


def test_a_public_key_is_pem_or_base64():
    pem = sanitation_proofs.pem_of(PUBLIC)
    assert PUBLIC == sanitation_proofs.key_of(pem)
    assert PUBLIC == sanitation_proofs.key_of(base64.b64encode(PUBLIC).decode() + "\n")
    for text in ("", "AAAA", "-----BEGIN PUBLIC KEY-----", pem.replace("M", "N")):
        with pytest.raises(NotProven, match="the key is none of Ed25519"):
            sanitation_proofs.key_of(text)
