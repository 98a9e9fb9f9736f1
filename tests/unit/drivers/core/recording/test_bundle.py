"""Files of recordings: written, read again, and refused when they are hostile."""

import copy
import json

import pytest

from drivers.core.recording import bundle
from drivers.core.recording.bundle import Answer, BadRecording, Recording, links, load, parse

ROOT = {"path": "/redfish/v1/", "status": 200, "headers": {"ETag": '"1"'}, "body": "{}"}
FILE = {"format": bundle.FORMAT, "version": 1, "system": None, "unread": [], "answers": [ROOT]}


def changed(**fields):
    return {**copy.deepcopy(FILE), **fields}


def with_answer(**fields):
    return changed(answers=[{**ROOT, **fields}])


def test_a_written_recording_is_read_again(tmp_path):
    path = tmp_path / "bmc.json"
    encoding, body = bundle.text_of(b'{"Model": "caf\xe9"}')
    answers = [Answer(**ROOT), Answer("/redfish/v1/Systems?$skip=2", 404, {}, encoding, body)]
    recording = Recording(answers, "/redfish/v1/Systems/1", ["/redfish/v1/Chassis"])
    path.write_text(recording.dump())
    assert recording == load(path)
    assert b'{"Model": "caf\xe9"}' == load(path).answers[1].content


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ([], "a recording is a JSON object"),
        ({}, "format: 'ingot-bmc-recording' is expected"),
        (changed(version=2), "version: 2 is not 1"),
        (changed(version=None), "version: None is not 1"),
        (changed(answers={}), "answers: a list of at most 10000 entries"),
        (changed(answers=[ROOT] * 10_001), "answers: a list of at most 10000 entries"),
        (changed(answers=[ROOT, ROOT]), "answers: two have the same path"),
        (changed(answers=[7]), "answers[0]: an object is expected"),
        (changed(system="/etc/passwd"), "system: a path below /redfish"),
        (changed(unread=[1]), "unread: paths below /redfish"),
        (with_answer(path="/etc/passwd"), "answers[0].path: a path below /redfish"),
        (with_answer(path="/redfish/v1/../../x"), "answers[0].path: a path"),
        (with_answer(path="/redfish/v1/ x"), "answers[0].path: a path"),
        (with_answer(path="/redfish/\r\nX: 1"), "answers[0].path: a path"),
        (with_answer(path="/redfish/" + "a" * 3000), "answers[0].path: a path"),
        (with_answer(status=101), "answers[0].status: a number from 200 to 599"),
        (with_answer(status=True), "answers[0].status: a number"),
        (with_answer(status="200"), "answers[0].status: a number"),
        (with_answer(headers=[]), "answers[0].headers: an object is expected"),
        (with_answer(headers={"Set-Cookie": "a"}), "answers[0].headers: 'Set-Cookie' is not one"),
        (with_answer(headers={"ETag": "1\r\nX: 2"}), "answers[0].headers: 'ETag' is not"),
        (with_answer(headers={"ETag": 1}), "answers[0].headers: 'ETag' is not"),
        (with_answer(encoding="utf-16"), "answers[0].encoding: utf-8 or latin-1"),
        (with_answer(body={}), "answers[0].body: a text is expected"),
        (with_answer(body="\ud800"), "answers[0].body: it is not utf-8"),
        (with_answer(body="\u20ac", encoding="latin-1"), "answers[0].body: it is not latin-1"),
        (with_answer(body="a" * (bundle.LONGEST_BODY + 1)), "answers[0].body: more than 4 MiB"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_refused_with_its_place(document, complaint):
    with pytest.raises(BadRecording) as refused:
        parse(document)
    assert complaint in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000, b"{}", b"1" * 5000])
def test_a_file_that_is_no_recording_is_refused_with_its_path(tmp_path, content):
    path = tmp_path / "bmc.json"
    path.write_bytes(content)
    with pytest.raises(BadRecording, match=r"bmc\.json: "):
        load(path)
    with pytest.raises(BadRecording, match=r"missing\.json: "):
        load(tmp_path / "missing.json")


def test_a_file_that_is_too_long_is_not_read(tmp_path):
    path = tmp_path / "bmc.json"
    with path.open("wb") as file:
        file.truncate(bundle.MOST_BYTES + 1)
    with pytest.raises(BadRecording, match="more than 64 MiB"):
        load(path)


def test_links_lead_to_the_same_bmc_only():
    document = {
        "@odata.id": "/redfish/v1/Self",
        "Power": {"@odata.id": "/redfish/v1/Power#/PowerSupplies/0"},
        "Members": [{"@odata.id": "http://bmc:8000/redfish/v1/Absolute"}, {"@odata.id": 7}],
        "Members@odata.nextLink": "/redfish/v1/Self?$skip=2",
        "Other": [{"@odata.id": "http://elsewhere/redfish/v1/No"}, {"@odata.id": "/etc"}],
        "Uri": "/redfish/v1/NoRegistry",
    }
    answer = Answer(
        "/redfish/v1/Self", 200, {"Location": "/redfish/v1/There/"}, body=json.dumps(document)
    )
    assert ["There/", "Self", "Power", "Absolute", "Self?$skip=2"] == [
        path.removeprefix("/redfish/v1/") for path in links(answer, "http://bmc:8000")
    ]
    registry = Answer(
        "/redfish/v1/Registries/B", 200, body='{"Location": [{"Uri": "/redfish/b.json"}]}'
    )
    assert ["/redfish/b.json"] == list(links(registry, "http://bmc:8000"))
