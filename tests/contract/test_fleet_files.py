"""Fleet files: nodes from CSV, YAML and JSON, and back, against the application."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from app.cli.fleet_file import documents, machine_files, spreadsheet
from app.cli.fleet_file.machine_files import FileForm
from app.lifecycle.provision_states import State
from app.models import Node, NodeTrait, Port
from tests.support.inside_commands import Ingot

PASSWORD = "not-on-any-screen"
HEADER = "Name;Driver;BMC IP;BMC user;BMC password;MAC;RAM;Rack;Bought"
MAPPED = (
    "--map", "BMC IP=driver_info.redfish_address", "--map", "bmc user=driver_info.redfish_username",
    "--map", "BMC password=driver_info.redfish_password", "--map", "MAC=ports",
    "--map", "RAM=properties.memory_mb", "--map", "Rack=extra.rack", "--map", "Bought=",
)  # fmt: skip


@pytest.fixture
def ingot(api):
    return Ingot(api.client.application)


def nodes_of(api):
    path = "/v1/nodes/detail?limit=1000"
    return {node["name"]: node for node in api("GET", path).json["nodes"]}


def sheet_of(count, wrong):
    """A spreadsheet as programs save it. wrong: number of a row -> its text."""
    rows = [HEADER]
    for number in range(count):
        row = (
            f' rack{number // 40}-u{number % 40:02} ;redfish;"10.1.{number // 250}.{number % 250}"; root ;'
            f'"{PASSWORD};""{number}""";52-54-00-00-{number // 256:02X}-{number % 256:02X};'
            f"16384;0{number // 40};01.02.2024"
        )
        rows.append(wrong.get(number, row))
    return b"\xef\xbb\xbf" + "\r\n".join(rows).encode() + b"\r\n;;;;;;;;\r\n"


def three_wrong(count):
    """Rows without a driver, with a wrong MAC address, and with the BMC of another row."""
    return {
        3: "no-driver;;10.9.0.1;root;x;52:54:00:ff:00:01;1;1;",
        count // 2: "no-mac;redfish;10.9.0.2;root;x;52:54:00:zz:00:01;1;1;",
        count - 2: "no-place;redfish;10.9.0.3;root;x;52:54:00:ff:00:02;lots;1;",
    }


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_machines_of_a_spreadsheet_are_enrolled_once_and_wrong_rows_are_named(
    api, ingot, tmp_path, count
):
    file = tmp_path / "rack.csv"
    file.write_bytes(sheet_of(count, three_wrong(count)))

    rehearsed = ingot("node", "import", file, *MAPPED, "--dry-run", status=1)
    assert [] == ingot.changes
    assert {} == nodes_of(api)
    assert (
        f"{count - 3} to create, 0 to change, 0 to delete, 0 unchanged, 3 refused"
        in rehearsed.lines
    )
    assert "+ rack0-u00 (line 2): create" in rehearsed.lines

    ended = ingot("node", "import", file, *MAPPED, status=1)
    errors = ended.err.splitlines()
    assert 4 == len(errors)
    assert errors[0].startswith("line 5, no-driver: driver: is required")
    assert (
        f"line {count // 2 + 2}, no-mac: column 'MAC', ports: '52:54:00:zz:00:01' is no MAC address"
        in errors[1]
    )
    assert f"line {count}, no-place: " in errors[2]
    assert "non-negative integers" in errors[2]
    assert f"ingot: 3 of {count} machines failed, for the reasons above" == errors[3]
    assert f"{count - 3} created, 0 changed, 0 deleted, 0 unchanged, 3 failed" == ended.lines[-1]
    for text in (ended.out, ended.err, rehearsed.out, rehearsed.err):
        assert PASSWORD not in text

    node = api("GET", "/v1/nodes/rack0-u07").json
    assert "10.1.0.7" == node["driver_info"]["redfish_address"]
    assert {"memory_mb": 16384} == node["properties"]
    assert {"rack": "00"} == node["extra"]  # no number: it would lose its zero
    with api.runtime.reading() as session:
        stored = session.query(Node).filter(Node.name == "rack0-u07").one()
        assert f'{PASSWORD};"7"' == stored.driver_info["redfish_password"]
    port = api("GET", "/v1/nodes/rack0-u07/ports").json["ports"]
    assert ["52:54:00:00:00:07"] == [item["address"] for item in port]

    again = ingot("node", "import", file, *MAPPED, status=1)
    assert f"0 created, 0 changed, 0 deleted, {count - 3} unchanged, 3 failed" == again.lines[-1]
    assert {("POST", "v1/nodes")} == {*ingot.changes}  # of no-place, which the service refuses


def secret_of(api, name, key="redfish_password"):
    with api.runtime.reading() as session:
        return session.query(Node).filter(Node.name == name).one().driver_info[key]


MACHINE = """
nodes:
- &base
  name: one
  driver: redfish
  driver_info: {redfish_address: "https://10.0.0.1", redfish_username: root}
  ports: [52:54:00:12:34:56]
  extra: {serial: 0815, version: "1.10", on: no}
"""


def test_yaml_has_the_types_of_its_version_1_2(api, ingot):
    ingot("node", "import", "-", stdin=MACHINE)
    node = api("GET", "/v1/nodes/one").json
    assert {"serial": "0815", "version": "1.10", "on": "no"} == node["extra"]
    assert "52:54:00:12:34:56" == api("GET", "/v1/nodes/one/ports").json["ports"][0]["address"]


@pytest.mark.parametrize("source", ["column", "file", "stdin", "another file"])
def test_a_secret_comes_from_anywhere_but_an_argument_and_is_compared(api, ingot, tmp_path, source):
    file, pw = tmp_path / "f.csv", tmp_path / "pw"
    column = f",driver_info.redfish_password\none,redfish,10.0.0.1,{PASSWORD}\n"
    plain = "\none,redfish,10.0.0.1\n"
    file.write_text(
        "name,driver,driver_info.redfish_address" + (column if source == "column" else plain)
    )
    pw.write_text(f"{PASSWORD}\n")
    if source == "another file":
        pw.write_text(json.dumps([{"name": "one", "driver_info": {"redfish_password": PASSWORD}}]))
    field = "driver_info.redfish_password"
    words = {
        "column": (), "file": ("--secret", f"{field}=@{pw}"), "stdin": ("--secret", f"{field}=@-"),
        "another file": ("--secrets", pw),
    }[source]  # fmt: skip
    stdin = f"{PASSWORD}\n" if source == "stdin" else None
    ingot("node", "import", file, *words, stdin=stdin)
    assert PASSWORD == secret_of(api, "one")

    again = ingot("apply", file, *words, stdin=stdin)
    assert [] == ingot.changes
    assert "0 created, 0 changed, 0 deleted, 1 unchanged, 0 failed" == again.lines[-1]

    if source == "file":
        pw.write_text("another\n")
        rehearsed = ingot("apply", file, *words, "--dry-run")
        assert f"    {field}: ****** (a secret)" in rehearsed.lines
        refused = ingot("apply", file, *words, status=2)
        assert "change credentials of 1 node (one): needs --yes" in refused.err
        ingot("apply", file, *words, "--yes")
        assert "another" == secret_of(api, "one")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--set", "driver_info.redfish_password=x"), "all users of this host can read arguments"),
        (("--secret", "driver_info.redfish_password=x"), "all users of this host can read"),
        (("--secret", "driver_info.redfish_password"), "there is no terminal to type it"),
        (("--secret", "owner=@-"), "a key is expected, as driver_info.redfish_password"),
        (("--set", "dirver=redfish"), "there is no such field; the nearest is driver"),
        (("--map", "name=nmae"), "there is no such field; the nearest is name"),
        (("--map", "Nmae=name"), "there is no column 'Nmae'; there are name, driver"),
    ],
)
def test_wrong_options_are_refused_before_any_request(ingot, tmp_path, words, message):
    file = tmp_path / "f.csv"
    file.write_text("name,driver\none,redfish\n")
    assert message in ingot("node", "import", file, *words, status=2).err
    assert [] == ingot.changes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name;driver\r\nr\xe4ck;redfish\r\n", "line 2: this is not UTF-8 (byte 0xe4)"),
        (b'name,driver\none,"redfish\n', "this is not CSV: unexpected end of data"),
        (
            b"name,dirver\none,redfish\n",
            "column 2, 'dirver': dirver: there is no such field; the near",
        ),
        (b"name,name\none,two\n", "column 2, 'name': there is a column of name already"),
        (b"name,extra\0\n", "line 1: has a NUL character"),
        (b"nodes:\n- name: a\n  name: b\n", "line 3: this is not YAML: 'name' is there twice"),
        (b"nodes:\n- name: [a\n", "line 3: this is not YAML"),
        (b'{"nodes": [{"name": "a", "name": "b"}]}', "'name' is there twice"),
        (b'{"chassis": [], "nodes": []}', "chassis: is no part of a fleet file"),
        (b"name,driver\n", "has no machine"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_line(ingot, tmp_path, content, message):
    file = tmp_path / "f"
    file.write_bytes(content)
    assert message in ingot("node", "import", file, status=2).err


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("- {name: two, driver: redfish, ports: [52:54:00:12:34:56]}", "is that of line 3, too"),
        ("- {name: one, driver: redfish}", "name: one is that of line 3, too"),
        ("- {name: two, driver: redfish, driver_info: {redfish_address: 10.0.0.1/}}",
         "driver_info.redfish_address: 10.0.0.1 is that of line 3, too"),
        ("- {name: old, ports: [52:54:00:00:00:99]}", "ports: 52:54:00:00:00:99 is that of node other"),
        ("- {name: new, driver: redfish, ports: [52:54:00:00:00:99]}",
         "to rename it: ingot node set other --name new"),
        ("- {name: old, driver_info: {redfish_adress: x}}",
         "driver redfish has no such key; the nearest is redfish_address"),
        ("- {name: old, driver_info: {redfish_password: '******'}}", "is masked"),
        ("- {name: old, retired: yes}", "retired: 'yes' is neither true nor false"),
        ("- {name: old, owner: 12}", "owner: a text is expected, not 12; quote it"),
        ("- {name: old, ports: [{adress: 1}]}", "the nearest is address"),
        ("- {name: old, resource.class: x}", "resource.class: there is no such field"),
        ("- {owner: x}", "name: is required, or uuid"),
        ("- {name: busy, resource_class: silver}", "resource_class: cannot be changed while node"),
        ("- {name: [a], driver_info: 1, ports: {}}", "name: a text is expected"),
        ("- {name: old, driver: redfsh}", "redfsh"),
    ],
)  # fmt: skip
def test_a_surprise_changes_nothing(api, ingot, entry, message):
    api("POST", "/v1/nodes", {"driver": "redfish", "name": "old"})
    api("POST", "/v1/nodes", {"driver": "redfish", "name": "other"})
    api("POST", "/v1/nodes", {"driver": "redfish", "name": "busy", "resource_class": "gold"})
    uuids = {name: node["uuid"] for name, node in nodes_of(api).items()}
    api.set(uuids["busy"], provision_state=State.ACTIVE)
    api("POST", "/v1/ports", {"node_uuid": uuids["other"], "address": "52:54:00:00:00:99"})
    ended = ingot("apply", "-", stdin=MACHINE + entry, status=1)
    assert message in ended.out
    assert "nothing was done" in ended.err
    assert [] == ingot.changes
    assert {"old", "other", "busy"} == nodes_of(api).keys()


def test_only_named_fields_change_and_the_dry_run_shows_them(api, ingot, tmp_path):
    body = {
        "driver": "redfish", "name": "one", "owner": "ann", "extra": {"a": 1, "b": 2, "/~": 1},
        "properties": {"cpus": 4},
    }  # fmt: skip
    uuid = api("POST", "/v1/nodes", body).json["uuid"]
    api("POST", "/v1/ports", {"node_uuid": uuid, "address": "52:54:00:00:00:01"})
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "nodes:\n- name: one\n  extra: {a: null, b: 3, /~: 2}\n  resource_class: gold\n"
        "  owner: null\n  traits: [CUSTOM_A]\n"
        "  ports:\n  - {address: 52:54:00:00:00:01, pxe_enabled: false}\n  - 52:54:00:00:00:02\n"
    )
    rehearsed = ingot("apply", file, "--dry-run")
    assert [
        "~ one (line 2): change",
        "    extra.a: 1 -> removed",
        "    extra.b: 2 -> 3",
        "    extra./~: 1 -> 2",
        "    resource_class: none -> gold",
        "    owner: ann -> removed",
        "    port 52:54:00:00:00:01: pxe_enabled: true -> false",
        "    port 52:54:00:00:00:02: new",
        "    traits: none -> CUSTOM_A",
        "0 to create, 1 to change, 0 to delete, 0 unchanged, 0 refused",
    ] == rehearsed.lines
    assert [] == ingot.changes
    ingot("apply", file)
    node = api("GET", "/v1/nodes/one").json
    assert {"b": 3, "/~": 2} == node["extra"]
    assert (None, {"cpus": 4}, "gold") == (
        node["owner"],
        node["properties"],
        node["resource_class"],
    )
    assert ["CUSTOM_A"] == node["traits"]
    ports = api("GET", "/v1/nodes/one/ports?detail=true").json["ports"]
    assert [False, True] == [port["pxe_enabled"] for port in ports]
    ingot("apply", file)
    assert [] == ingot.changes


def test_pruning_is_listed_confirmed_and_limited(api, ingot):
    for name in ("keep", "drop", "busy", "elsewhere"):
        api("POST", "/v1/nodes", {"driver": "redfish", "name": name, "shard": f"of-{name}"})
    uuids = {name: node["uuid"] for name, node in nodes_of(api).items()}
    for digit in (1, 2):
        address = f"52:54:00:00:00:0{digit}"
        api("POST", "/v1/ports", {"node_uuid": uuids["keep"], "address": address})
    fleet = "nodes: [{name: keep, ports: [52:54:00:00:00:01]}]"
    options = ("--where", "shard in (of-keep, of-drop)")
    refused = ingot("apply", "-", "--prune", *options, stdin=fleet, status=2)
    assert "- drop: delete" in refused.lines
    assert "    port 52:54:00:00:00:02: removed" in refused.lines
    assert "delete 1 node (drop); delete ports of 1 node (keep): needs --yes" in refused.err
    assert [] == ingot.changes
    api.set(uuids["busy"], provision_state=State.ACTIVE)
    refused = ingot("apply", "-", "--prune", "--yes", stdin=fleet, status=1)
    assert any(line.startswith("! busy: Can not delete node") for line in refused.lines)
    assert [] == ingot.changes
    ingot("apply", "-", "--prune", "--yes", *options, stdin=fleet)
    assert {"keep", "busy", "elsewhere"} == nodes_of(api).keys()
    ports = api("GET", "/v1/nodes/keep/ports").json["ports"]
    assert ["52:54:00:00:00:01"] == [port["address"] for port in ports]


def test_an_export_leaves_out_secrets_and_instances_and_says_so(api, ingot, tmp_path):
    body = {
        "driver": "redfish", "name": "one",
        "driver_info": {
            "redfish_address": "10.0.0.1", "redfish_password": PASSWORD,
            "deploy_kernel": f"https://u:{PASSWORD}@images/kernel",
        },
        "instance_info": {"image_source": "http://images/1"},
    }  # fmt: skip
    api("POST", "/v1/nodes", body)
    file = tmp_path / "fleet.yaml"
    ended = ingot("node", "export", "--file", file)
    assert [
        "ingot: left out, as it is secret: driver_info.deploy_kernel of 1 node",
        "ingot: left out, as it is secret: driver_info.redfish_password of 1 node",
    ] == ended.err.splitlines()
    assert {"redfish_address": "10.0.0.1"} == yaml.safe_load(file.read_text())["nodes"][0][
        "driver_info"
    ]
    assert "instance_info" not in file.read_text()
    assert "images" not in file.read_text()
    ingot("apply", file)
    assert [] == ingot.changes
    assert PASSWORD == secret_of(api, "one")
    assert "there is no node nonesuch" in ingot("node", "export", "nonesuch", status=1).err


def test_a_child_is_enrolled_after_its_parent(api, ingot):
    fleet = """nodes:
- {name: dpu, driver: fake-hardware, parent_node: host}
- {name: host, driver: fake-hardware, protected: false}
"""
    ingot("apply", "-", "--dry-run", stdin=fleet)
    ingot("apply", "-", stdin=fleet)
    host, dpu = (api("GET", f"/v1/nodes/{name}").json for name in ("host", "dpu"))
    assert host["uuid"] == dpu["parent_node"]
    ingot("apply", "-", stdin=fleet)
    assert [] == ingot.changes
    assert "parent_node: host" in ingot("node", "export").out


def test_a_half_enrolled_machine_is_reported_and_completed_by_the_next_run(api, ingot):
    fleet = (
        "nodes: [{name: one, driver: redfish, ports: [{address: 52:54:00:00:00:01, name: a b}]}]"
    )
    failed = ingot("node", "import", "-", stdin=fleet, status=1)
    assert "line 1, one: the node was created, but port 52:54:00:00:00:01: " in failed.err
    again = ingot("node", "import", "-", stdin=fleet.replace("a b", "ab"))
    assert "one: changed" in again.lines
    assert "ab" == api("GET", "/v1/nodes/one/ports?detail=true").json["ports"][0]["name"]


def test_scripts_get_a_document_for_each_machine(ingot):
    fleet = "nodes: [{name: one, driver: redfish}, {name: two}]"
    ended = ingot("node", "import", "-", "-o", "json", stdin=fleet, status=1)
    assert [
        {"place": "line 1", "node": "one", "action": "create", "ok": True, "error": None,
         "changes": ["driver: redfish"]},
        {"place": "line 1", "node": "two", "action": "refuse", "ok": False,
         "error": "driver: is required for a new node", "changes": []},
    ] == json.loads(ended.out)  # fmt: skip


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
SCALAR = st.one_of(
    TEXT, st.booleans(), st.integers(-(2**40), 2**40),
    st.floats(-1e12, 1e12, allow_nan=False).filter(lambda number: number != 0),
    st.sampled_from(["1.10", "007", "1e5", "no", "TRUE", "null", "=1+1", "-5", " x ", '"q"', "a\nb"]),
)  # fmt: skip
KEY = st.text("abcXYZ019_-", min_size=1, max_size=6).filter(
    lambda key: not any(word in key.lower() for word in ("kg", "sig"))
)
VALUE = SCALAR | st.lists(SCALAR, max_size=2) | st.dictionaries(KEY, SCALAR, max_size=2)
DOCUMENT = st.dictionaries(KEY, VALUE, min_size=1, max_size=3)
PORT = st.fixed_dictionaries(
    {},
    optional={
        "pxe_enabled": st.just(False), "physical_network": st.text("abc1", min_size=1, max_size=4),
        "extra": DOCUMENT, "description": TEXT,
    },
)  # fmt: skip
MACHINES = st.lists(
    st.fixed_dictionaries(
        {"driver": st.sampled_from(["fake-hardware", "redfish"]), "more_ports": st.lists(PORT, max_size=2)},
        optional={
            "properties": DOCUMENT, "extra": DOCUMENT, "description": TEXT,
            "resource_class": st.text("abc.", min_size=1, max_size=5), "owner": TEXT,
            "conductor_group": st.just(""), "automated_clean": st.booleans(),
            "retired": st.just(True), "traits": st.just(["CUSTOM_A", "CUSTOM_B"]),
            "deploy_interface": st.just("ramdisk"), "disable_power_off": st.just(True),
        },
    ),
    min_size=1, max_size=3,
)  # fmt: skip


class Service:
    """An application and the command, with a short name in reports of failed examples."""

    def __init__(self, api):
        self.runtime, self.ingot = api.runtime, Ingot(api.client.application)

    def __repr__(self):
        return "service"


@pytest.fixture
def service(api):
    return Service(api)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(machines=MACHINES, form=st.sampled_from(FileForm))
def test_an_import_and_an_export_are_inverse_and_an_export_applies_without_a_change(
    service, machines, form
):
    ingot = service.ingot
    with service.runtime.transaction() as session:
        for table in (Port, NodeTrait, Node):
            session.execute(delete(table))
    fleet = []
    for number, machine in enumerate(machines):
        fields = {"name": f"m{number}", **machine}
        ports = [
            {"address": f"52:54:00:00:0{number}:0{index}", **port}
            for index, port in enumerate(fields.pop("more_ports"))
        ]
        if fields.get("conductor_group") == "":
            del fields["conductor_group"]
        fleet.append({**fields, **({"ports": ports} if ports else {})})
    with TemporaryDirectory() as folder:
        file, back = Path(folder, f"in.{form}"), Path(folder, f"out.{form}")
        file.write_bytes(machine_files.written(form, fleet).encode())
        ingot("apply", file)
        ingot("node", "export", "--file", back)
        entries = machine_files.read("FILE", str(back), None)
        assert fleet == [
            entry.values if form is not FileForm.CSV else in_order(entry) for entry in entries
        ]
        ingot("apply", back, "--prune", "--yes")
        assert [] == ingot.changes


def in_order(entry):
    """The values of a row of a spreadsheet, with ports as documents."""
    entry.check()
    return entry.values


@given(VALUE)
def test_each_value_of_a_key_has_a_cell_that_is_no_formula(value):
    cell = spreadsheet.cell_of(value, is_key=True)
    assert value == spreadsheet.value_of(cell)
    assert type(value) is type(spreadsheet.value_of(cell))
    assert isinstance(value, int | float) or cell[0] not in "=+-@\t\r"


@given(TEXT)
def test_each_text_of_yaml_is_read_back_by_version_1_2_and_by_1_1(text):
    document = documents.write_yaml([{"name": text, text: text}])
    assert {"name": text, text: text} == documents.read_yaml(document)[0].values
    assert {"name": text, text: text} == yaml.safe_load(document)["nodes"][0]
