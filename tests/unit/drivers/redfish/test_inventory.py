"""Out-of-band inspection of machines that lack facts, or report them in forms that are none."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from app.inspection.process import process
from drivers.core.errors import HardwareError, InspectionFailed, Unexpected
from drivers.core.target import Inspected, Material
from drivers.simulator.redfish_bmc.documents import ROOT, STORAGE, SYSTEM
from tests.unit.drivers.documents import LocalBmc, having, without
from tests.unit.drivers.machines import with_option
from tests.unit.drivers.redfish.transport.test_documents import GONE, VALUES, changed, pointers

CPU, NICS = f"{SYSTEM}/Processors/CPU0", f"{SYSTEM}/EthernetInterfaces"
#: Findings of an inspection of the simulated machine.
PROPERTIES = {
    "cpus": 8, "cpu_arch": "x86_64", "memory_mb": 32768, "local_gb": 893,
    "capabilities": "boot_mode:uefi",
}  # fmt: skip


@pytest.fixture
def bmc(monkeypatch):
    return LocalBmc().install(monkeypatch)


def inspected(bmc, driver="redfish", **fields):
    """Inspect a machine; return the findings."""
    node = bmc.node(driver=driver, **fields)
    node.driver.inspect.inspect_hardware(node)
    process(node)
    return node.reports["findings"]


def properties(bmc):
    return inspected(bmc).node["properties"]


def test_the_facts_of_a_complete_machine(bmc):
    findings = inspected(bmc)
    assert PROPERTIES == findings.node["properties"]
    assert not {"missing_facts", "ignored_interfaces", "unread_documents"} & {*findings.plugin_data}


@pytest.mark.parametrize(
    ("path", "change", "lost"),
    [
        (CPU, without("InstructionSet", "ProcessorArchitecture"), {"cpu_arch"}),
        (CPU, having(InstructionSet=None, ProcessorArchitecture=["x86"]), {"cpu_arch"}),
        (SYSTEM, without("MemorySummary"), {"memory_mb"}),
        (SYSTEM, having(MemorySummary={"TotalSystemMemoryGiB": "lots"}), {"memory_mb"}),
        (SYSTEM, having(MemorySummary=[5]), {"memory_mb"}),
        (SYSTEM, having(Boot=None), {"capabilities"}),
        (SYSTEM, having(Boot={"BootSourceOverrideMode": {}}), {"capabilities"}),
        (SYSTEM, without("Processors", "ProcessorSummary"), {"cpus", "cpu_arch"}),
        (f"{SYSTEM}/Processors", None, {"cpu_arch"}),
        (f"{SYSTEM}/Processors", having(Members=None), {"cpu_arch"}),
        (SYSTEM, having(Actions=7, Status="fine", HostName=[], BiosVersion={}), set()),
        (CPU, having(TotalCores="some", MaxSpeedMHz=[], Model=5, Status=3), set()),
    ],
)
def test_a_missing_or_malformed_fact_leaves_out_one_property(bmc, path, change, lost):
    bmc.changes[path] = change
    expected = {name: value for name, value in PROPERTIES.items() if name not in lost}
    assert expected == properties(bmc)


@pytest.mark.parametrize(
    ("instructions", "family", "architecture"),
    [
        ("x86-64", None, "x86_64"),
        (None, "x86", "x86_64"),
        ("", "ARM", "aarch64"),
        ("OEM", "Power", "ppc64le"),
        (None, "RISC-V", "riscv64"),
        ("x86", "x86", "i686"),
        ("ARM-A64", "x86", "aarch64"),
    ],
)
def test_the_architecture_is_that_of_the_instructions_else_of_the_family(
    bmc, instructions, family, architecture
):
    bmc.changes[CPU] = having(InstructionSet=instructions, ProcessorArchitecture=family)
    assert architecture == properties(bmc)["cpu_arch"]


def test_missing_facts_are_noted_in_the_findings(bmc):
    bmc.changes[CPU] = without("InstructionSet", "ProcessorArchitecture")
    bmc.changes[SYSTEM] = without("MemorySummary")
    bmc.changes[f"{STORAGE}/Drives/1"] = None
    noted = inspected(bmc).plugin_data
    assert [
        "does not contain the size of the memory",
        "does not contain the architecture of the processor",
    ] == noted["missing_facts"]
    assert [f"{STORAGE.replace('{id}', bmc.machine.uuid)}/Drives/1"] == noted["unread_documents"]


def test_a_system_without_a_document_ends_the_inspection(bmc):
    bmc.changes[SYSTEM] = lambda _: b"<html>"
    with pytest.raises(Unexpected):
        inspected(bmc)


def test_a_report_of_the_agent_has_to_be_complete(bmc):
    node = bmc.node()
    node.report(inspected=Inspected({"cpu": {}}, {}, ["architecture"]))
    with pytest.raises(InspectionFailed, match="architecture of the processor"):
        process(node)


def nics(bmc, *documents):
    """Give the machine these network interfaces."""
    names = [f"NIC{at}" for at in range(len(documents))]
    path = NICS.replace("{id}", bmc.machine.uuid)
    bmc.more[NICS] = {"Members": [{"@odata.id": f"{path}/{name}"} for name in names]}
    for name, document in zip(names, documents, strict=True):
        bmc.more[f"{NICS}/{name}"] = {"@odata.id": f"{path}/{name}", "Id": name, **document}


def addresses(findings):
    return [port["address"] for port in findings.ports or ()]


MAC, OTHER, THIRD = "52:54:00:c2:42:01", "94:40:c9:00:00:02", "94:40:c9:00:00:03"


@pytest.mark.parametrize(
    ("reported", "reason"),
    [
        ("00:00:00:00:00:00", "is all zeros"),
        ("FF-FF-FF-FF-FF-FF", "is that of a group"),
        ("01:00:5e:00:00:01", "is that of a group"),
        ("33:33:00:00:00:01", "is that of a group"),
        ("N/A", "is no MAC address"),
        ("21:00:F4:E9:00:00:00:01", "is no MAC address"),  # of a Fibre Channel adapter
        ("52:54:00:c2:42", "is no MAC address"),
        ("a0:00:02:20:fe:80:00:00:00:00:00:00:e4:1d:2d:03:00:50:04:81", "is no MAC address"),
    ],
)
def test_an_address_that_is_no_stations_becomes_no_port_and_is_noted(bmc, reported, reason):
    nics(bmc, {"MACAddress": MAC}, {"MACAddress": reported})
    with capture_logs() as lines:
        findings = inspected(bmc)
    assert [MAC] == addresses(findings)
    assert reason in findings.plugin_data["ignored_interfaces"]["NIC1"]
    assert ["inspection.interfaces_ignored"] == [line["event"] for line in lines]
    node = bmc.node()
    assert [MAC] == node.driver.management.mac_addresses(node)


@pytest.mark.parametrize("form", ["9440C9000002", "94-40-C9-00-00-02", "9440.c900.0002"])
def test_an_address_may_have_any_separators(bmc, form):
    nics(bmc, {"MACAddress": form})
    assert [OTHER] == addresses(inspected(bmc))


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ([{"PermanentMACAddress": OTHER}], [OTHER]),
        ([{"MACAddress": None, "PermanentMACAddress": OTHER}], [OTHER]),
        ([{"MACAddress": "00:00:00:00:00:00", "PermanentMACAddress": OTHER}], [OTHER]),
        # the network sees the address of a profile
        ([{"MACAddress": MAC, "PermanentMACAddress": OTHER}], [MAC]),
        # members of a bond report the address of the bond
        (
            [
                {"MACAddress": MAC, "PermanentMACAddress": OTHER},
                {"MACAddress": MAC, "PermanentMACAddress": THIRD},
            ],
            [OTHER, THIRD],
        ),
        ([{"MACAddress": MAC}, {"MACAddress": MAC, "PermanentMACAddress": OTHER}], [MAC, OTHER]),
        ([{"MACAddress": MAC}, {"MACAddress": MAC, "PermanentMACAddress": "0"}], [MAC]),
        ([{"MACAddress": MAC, "Status": {"State": "Absent"}}, {"MACAddress": OTHER}], [OTHER]),
    ],
)
def test_the_permanent_address_stands_for_one_that_is_missing_or_shared(bmc, documents, expected):
    nics(bmc, *documents)
    assert expected == addresses(inspected(bmc))


@pytest.mark.parametrize("keep_ports", ["all", "present", "added"])
@pytest.mark.parametrize("documents", [(), ({"MACAddress": "00:00:00:00:00:00"},)])
def test_a_bmc_without_usable_interfaces_leaves_the_ports_as_they_are(bmc, documents, keep_ports):
    nics(bmc, *documents)
    port = {"uuid": "u", "address": MAC, "bound": False, "pxe_enabled": True, "extra": {}}
    options = with_option("inspector", keep_ports=keep_ports)
    findings = inspected(bmc, material=Material(ports=[port]), options=options)
    assert findings.ports is None
    assert "no valid network interface" in findings.plugin_data["missing_facts"][0]


def test_links_may_be_urls_of_the_same_bmc_and_lead_to_no_other_host(bmc):
    nics(bmc, {"MACAddress": MAC}, {"MACAddress": OTHER}, {"MACAddress": THIRD})
    first_path, second_path, third_path = (link["@odata.id"] for link in bmc.more[NICS]["Members"])
    links = [
        first_path,
        f"{bmc.machine.redfish_address}{second_path}",
        f"http://192.0.2.1{third_path}",
        "//x/y",
        5,
    ]
    bmc.more[NICS] = {"Members": [{"@odata.id": link} for link in links]}
    assert [MAC, OTHER] == addresses(inspected(bmc))


def test_all_pages_of_the_interfaces_are_read(bmc):
    nics(bmc, {"MACAddress": MAC}, {"MACAddress": OTHER})
    path = NICS.replace("{id}", bmc.machine.uuid)
    first_link, second_link = bmc.more[NICS]["Members"]
    bmc.more[NICS] = {"Members": [first_link], "Members@odata.nextLink": f"{path}/More"}
    bmc.more[f"{NICS}/More"] = {"Members": [second_link]}
    assert [MAC, OTHER] == addresses(inspected(bmc))


def _documents():
    """Return paths and pointers of all values below the system."""
    documents = LocalBmc().documents()
    return [
        (path, pointer)
        for path in sorted(documents)
        if path.startswith((SYSTEM, STORAGE))
        for pointer in pointers(documents[path])
    ]


@settings(
    derandomize=True, database=None, deadline=None, max_examples=150,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(st.sampled_from(_documents()), st.sampled_from((GONE, *VALUES)))
def test_no_single_value_ends_an_inspection(place, value):
    path, pointer = place
    with pytest.MonkeyPatch.context() as patch:
        bmc = LocalBmc(changes={path: changed(pointer, value)}).install(patch)
        node_properties = inspected(bmc).node["properties"]
    assert len(PROPERTIES.keys() - node_properties.keys()) <= 2  # processors have two


def test_a_server_error_ends_the_inspection_for_a_repetition(bmc, monkeypatch):
    """A part that is missing for a moment must not remove ports."""
    whole = bmc.answer

    def failing(method, path, headers, body=b""):
        return (
            (503, b"{}", {}) if path.endswith("Interfaces") else whole(method, path, headers, body)
        )

    monkeypatch.setattr(bmc, "answer", failing)
    with pytest.raises(HardwareError) as raised:
        inspected(bmc)
    assert raised.value.retryable


def test_the_root_service_lists_the_system_that_sushy_cannot_read(bmc):
    bmc.changes[SYSTEM] = having(MemorySummary={"TotalSystemMemoryGiB": "lots"})
    bmc.changes[f"{ROOT}/Systems"] = lambda document: document
    node = bmc.node()
    info = {name: value for name, value in node.driver_info.items() if name != "redfish_system_id"}
    findings = inspected(bmc, driver_info=info)
    assert "x86_64" == findings.node["properties"]["cpu_arch"]
