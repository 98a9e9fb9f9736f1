"""Replacements in recordings: nothing that identifies a machine is left, and links still work."""

import json
import re
from ipaddress import ip_address
from random import Random
from uuid import UUID

import pytest

from drivers.core.recording.bundle import Answer, Recording, parse
from drivers.core.recording.pseudonyms import Pseudonyms

BMC = "https://10.3.7.9:8443"


def applied(*documents, identities=None, path="/redfish/v1/Things/{}", **fields):
    """Return the replaced documents, and the pseudonyms."""
    answers = [
        Answer(
            path.format(i),
            200,
            body=document if isinstance(document, str) else json.dumps(document),
            **fields,
        )
        for i, document in enumerate(documents)
    ]
    pseudonyms = Pseudonyms(Random(1))
    recording = pseudonyms.applied(Recording(answers), {BMC: "bmc", **(identities or {})})
    parse(json.loads(recording.dump()))
    return [answer.document() for answer in recording.answers], pseudonyms, recording


@pytest.mark.parametrize(
    ("name", "value", "form"),
    [
        ("SerialNumber", "CN7792194A0123", r"[A-Z]{2}\d{7}[A-Z]\d{4}"),
        ("SKU", "7XK42T2", r"\d[A-Z]{2}\d\d[A-Z]\d"),
        ("ChassisServiceTag", "7XK42T2", r"\d[A-Z]{2}\d\d[A-Z]\d"),
        ("AssetTag", "rack 7, position 3", r"tag-\d+"),
        ("HostName", "db-master-3", r"host-\d+"),
        ("FQDN", "db3.corp.internal", r"host-\d+\.example"),
        ("UserName", "jsmith", r"user-\d+"),
        ("Password", "hunter2", r"secret-\d+"),
        ("TrapCommunity", "topsecret", r"secret-\d+"),
        ("City", "Berlin", r"place-\d+"),
        ("WWPN", "50:01:43:80:24:26:0C:8A", r"(?:[0-9A-F]{2}:){7}[0-9A-F]{2}"),
        ("DurableName", "5002538c407a1f2b", r"[0-9a-f]{16}"),
        ("MACAddress", "AC:1F:6B:01:02:03", r"02(?::[0-9A-F]{2}){5}"),
        ("Anything", "ac-1f-6b-01-02-03", r"02(?:-[0-9a-f]{2}){5}"),
        ("Address", "10.1.2.3", r"198\.18\.\d+\.\d+"),
        ("Address", "2001:470:1f0b::17", r"2001:db8::[0-9a-f]+"),
        ("Anything", "4c4c4544-0058-4b10-8034-b7c04f325432", r"[0-9a-f-]{36}"),
        ("Contact", "jane.doe@corp.example.org", r"person-\d+@example.com|place-\d+"),
        ("Destination", "https://siem.corp.internal/in", r"https://host-\d+.example/in"),
        ("Image", "nfs.corp.internal", r"nfs.corp.internal"),  # no form and no name
    ],
)  # fmt: skip
def test_a_value_keeps_its_form(name, value, form):
    (document,), _, recording = applied({name: value})
    assert re.fullmatch(form, document[name]), document[name]
    if name != "Image":
        assert value not in recording.dump()


def test_replacements_are_valid_values():
    (document,), _, _ = applied({
        "MACAddress": "AC:1F:6B:01:02:03", "A": "10.1.2.3", "B": "fe80::ae1f:6bff:fe01:203",
        "UUID": "4C4C4544-0058-4B10-8034-B7C04F325432",
    })  # fmt: skip
    assert not int(document["MACAddress"][:2], 16) & 1
    assert {4, 6} == {ip_address(document[name]).version for name in "AB"}
    assert 4 == UUID(document["UUID"]).version
    assert document["UUID"].isupper()


def test_equal_values_get_equal_replacements_everywhere():
    uuid, mac, serial = "4c4c4544-0058-4b10-8034-b7c04f325432", "ac:1f:6b:01:02:03", "CZ3125ABCD"
    path = f"/redfish/v1/Systems/{uuid}/NICs/NIC.AC1F6B010203/{{}}"
    documents, _, recording = applied(
        {"@odata.id": path.format(0), "UUID": uuid.upper(), "MACAddress": mac, "SerialNumber": serial},
        {"Text": f"card AC-1F-6B-01-02-03 of {serial}\nhas failed", "Link": f"/redfish/v1/{serial}"},
        json.dumps({"Escaped": f"/redfish/v1/Systems/{uuid}"}).replace("/", r"\/"),
        path=path,
    )  # fmt: skip
    document, second, third = documents
    new = document["UUID"].lower()
    assert new != uuid
    assert f"/redfish/v1/Systems/{new}" == third["Escaped"]
    assert document["@odata.id"] == recording.answers[0].path
    assert new in recording.answers[0].path
    bare = document["MACAddress"].replace(":", "").upper()
    assert f"NIC.{bare}" in recording.answers[0].path
    assert (
        f"card {'-'.join(re.findall('..', bare))} of {document['SerialNumber']}\n" in second["Text"]
    )
    assert f"/redfish/v1/{document['SerialNumber']}" == second["Link"]


def test_values_that_identify_nothing_stay():
    document = {
        "SerialNumber": "Default string", "AssetTag": "", "UUID": "00000000-0000-0000-0000-000000000000",
        "MACAddress": "00:00:00:00:00:00", "Broadcast": "ff:ff:ff:ff:ff:ff", "Group": "01:00:5e:00:00:01",
        "SubnetMask": "255.255.255.0", "Address": "127.0.0.1", "Any": "0.0.0.0", "Model": "R740",
        "FirmwareVersion": "2.10.10.10", "BiosVersion": "1.2.3.4", "DateTime": "2026-01-01T10:11:12Z",
        "Schema": "http://redfish.dmtf.org/schemas/v1/x.json", "HostName": None, "PartNumber": "0X1Y2Z",
    }  # fmt: skip
    (copy,), pseudonyms, _ = applied(document)
    assert document == copy
    assert [] == list(pseudonyms.review())


def test_a_short_value_or_a_name_of_a_property_is_replaced_in_its_property_only():
    (document,), _, _ = applied(
        {
            "HostName": "Chassis",
            "Chassis": {"SerialNumber": "12"},
            "Count": "12",
            "Name": "Chassis 12",
        }
    )
    assert "host-" in document["HostName"]
    assert re.fullmatch(r"\d\d", document["Chassis"]["SerialNumber"])
    assert "12" != document["Chassis"]["SerialNumber"]
    assert ("12", "Chassis 12") == (document["Count"], document["Name"])


def test_a_number_is_replaced_by_a_number():
    (document,), _, _ = applied({"ExpressServiceCode": 12345678901})
    assert isinstance(document["ExpressServiceCode"], int)
    assert 12345678901 != document["ExpressServiceCode"]


def test_the_bmc_in_absolute_links_gets_a_fixed_name():
    (document,), _, recording = applied(
        {"@odata.id": f"{BMC}/redfish/v1", "Plain": "http://10.3.7.9/redfish", "Address": "10.3.7.9"},
        headers={"Location": f"{BMC}/redfish/v1/Tasks/1"},
    )  # fmt: skip
    assert "https://bmc.example/redfish/v1" == document["@odata.id"]
    assert "http://bmc.example/redfish" == document["Plain"]
    assert "198.18.0." in document["Address"]
    assert "https://bmc.example/redfish/v1/Tasks/1" == recording.answers[0].headers["Location"]


def test_values_of_the_node_and_of_the_caller_are_replaced():
    identities = {"rack7-node3": "host", "operator": "user", "Project Falcon": "other"}
    (document,), pseudonyms, _ = applied(
        {"Description": "rack7-node3 of Project Falcon, set up by operator"}, identities=identities
    )
    assert re.fullmatch(r"host-\d+ of other-1, set up by user-1", document["Description"])
    assert {("host", 1), ("other", 1), ("user", 1)} == {
        (row.kind, row.places) for row in pseudonyms.review()
    }


def test_a_private_key_is_replaced_as_a_whole():
    pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----"
    (document,), _, recording = applied({"Value": f"key: {pem}"})
    assert "key: secret-1" == document["Value"]
    assert "MIIEow" not in recording.dump()


def test_bodies_that_are_no_json_are_replaced_by_what_is_known():
    documents, _, recording = applied({"SerialNumber": "CZ3125ABCD"}, "<html>CZ3125ABCD</html>")
    assert f"<html>{documents[0]['SerialNumber']}</html>" == recording.answers[1].body


def test_two_recordings_have_unlike_replacements():
    pseudonyms = [Pseudonyms() for _ in range(2)]
    answer = Answer("/redfish/v1/", 200, body='{"MACAddress": "ac:1f:6b:01:02:03"}')
    first_body, second_body = (
        p.applied(Recording([answer]), {}).answers[0].body for p in pseudonyms
    )
    assert first_body != second_body
