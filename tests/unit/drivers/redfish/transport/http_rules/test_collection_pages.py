"""Collections in pages: they are read to their last one."""

import re
from pathlib import Path

import pytest

from drivers.core.errors import Unexpected
from drivers.redfish.transport import client, http_rules, navigation
from tests.support.rude_bmc import SYSTEM, SYSTEMS, link

from .conftest import both, node


def paged(bmc, path, members, size, key="Members@odata.nextLink", link_of="{path}?$skip={at}"):
    """Serve a collection in pages; {at} is the number of members before."""
    count = -(-len(members) // size)

    def rule(handler):
        place, _, query = handler.path.partition("?")
        if handler.command != "GET" or place.rstrip("/") != path:
            return None
        at = int(query.rpartition("=")[2] or 0)
        page = {"@odata.id": path, "Name": "c", "Members": members[at : at + size]}
        if at + size < len(members):
            page[key] = link_of.format(path=path, at=at + size, url=bmc.url)
        assert count
        return 200, {}, page

    return rule


FORMS = [
    ("Members@odata.nextLink", "{path}?$skip={at}"), ("@odata.nextLink", "{path}?$skip={at}"),
    ("Members@odata.nextLink", "{url}{path}?$skip={at}"), ("Members@odata.nextLink", "?$skip={at}"),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("count", "size"), [(5, 2), (4, 2), (1, 1), (120, 50)])
def test_a_collection_is_read_to_its_last_page(bmc, form, count, size):
    path = f"{SYSTEM}/EthernetInterfaces"
    bmc.documents[SYSTEM]["EthernetInterfaces"] = link(path)
    paths = [f"{path}/{number}" for number in range(count)]
    for nic_path in paths:
        bmc.documents[nic_path] = {
            "@odata.id": nic_path,
            "Id": nic_path,
            "Name": "NIC",
            "MACAddress": "52:54:00:00:00:01",
        }
    bmc.rule = paged(bmc, path, [link(nic_path) for nic_path in paths], size, *form)
    it = node(bmc)
    with client.turn(it, it.driver.power.bmcs) as connection:
        system = connection.system(fresh=True)
        assert paths == [
            member.path for member in navigation.members(connection, system, "ethernet_interfaces")
        ]


@both
@pytest.mark.parametrize("form", FORMS)
def test_the_second_page_counts_for_the_number_of_systems(bmc, read, form):
    second = f"{SYSTEMS}/2"
    bmc.documents[second] = {**bmc.documents[SYSTEM], "@odata.id": second}
    bmc.rule = paged(bmc, SYSTEMS, [link(SYSTEM), link(second)], 1, *form)
    with pytest.raises(Unexpected, match="exactly one system"):
        read(node(bmc, redfish_system_id=None))
    bmc.rule = paged(bmc, SYSTEMS, [link(SYSTEM)], 1, *form)
    assert "power on" == read(node(bmc, redfish_system_id=None))


def test_lists_inside_a_document_are_completed(bmc):
    bmc.documents[SYSTEM]["Storage"] = {
        "Members": [{"Id": "1", "Drives": [link("/a")], "Drives@odata.nextLink": "/p2"}],
        "Members@odata.nextLink": "/p3",
    }
    bmc.documents["/p2"] = {"Drives": [link("/b")]}
    bmc.documents["/p3"] = {"Members": [{"Id": "2", "Drives": [], "Drives@odata.nextLink": "/p4"}]}
    bmc.documents["/p4"] = {"Drives": [link("/c")]}
    it = node(bmc)
    with client.turn(it, it.driver.power.bmcs) as connection:
        storage = connection.system(fresh=True).json["Storage"]
    assert [[link("/a"), link("/b")], [link("/c")]] == [
        member["Drives"] for member in storage["Members"]
    ]


@both
@pytest.mark.parametrize(
    "page",
    [
        (404, {}, b""), (500, {}, b""), (200, {}, b"<html>"), (200, {}, {"Members": None}),
        (200, {}, {"Members": [], "Members@odata.nextLink": f"{SYSTEMS}?p"}),
        (200, {}, {"Members": [], "Members@odata.nextLink": SYSTEMS}),
        (200, {}, {"Members": [], "Members@odata.nextLink": 5}),
        (200, {}, {"Members": [], "Members@odata.nextLink": "http://192.0.2.1/x"}),
    ],
)  # fmt: skip
def test_a_collection_without_one_of_its_pages_is_no_collection(bmc, read, page):
    first_page = {"Members": [link(SYSTEM)], "Members@odata.nextLink": f"{SYSTEMS}?p"}
    bmc.rule = lambda handler: (
        page
        if handler.path == f"{SYSTEMS}?p"
        else (200, {}, first_page)
        if handler.path == SYSTEMS
        else None
    )
    with pytest.raises(Unexpected):
        read(node(bmc, redfish_system_id=None))
    assert 20 > len(bmc.request_log)


#: Code that makes a connection to a BMC, or reads pages -> the modules that may have it.
DOORS = {
    r"\bSushy\(|Connector\)?:|\.Session\(": {"connector.py"},
    r"ClientSession\(": {"sweep.py"},
    r"nextLink|\$skip|\$top": {"pages.py"},
}


@pytest.mark.parametrize("pattern", DOORS)
def test_no_code_reads_a_collection_beside_the_rules(pattern):
    """Collections are completed before sushy or the sweep see them: a page is never alone."""
    folder = Path(http_rules.__file__).parents[1]
    modules = {path.name for path in folder.rglob("*.py") if re.search(pattern, path.read_text())}
    assert modules <= DOORS[pattern]
    assert modules
