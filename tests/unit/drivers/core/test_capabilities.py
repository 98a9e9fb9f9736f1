"""Capabilities of instances and machines: three forms of a field, and refusals of all others."""

import pytest

from drivers.core import capabilities
from drivers.core.errors import InvalidDriverInfo
from tests.unit.drivers.machines import target

FIELD = "instance_info/capabilities"
ASKED = {"boot_mode": "bios", "secure_boot": "false"}


@pytest.mark.parametrize(
    "value",
    [
        ASKED,
        {"boot_mode": "BIOS", "secure_boot": False},
        '{"boot_mode": "bios", "secure_boot": "false"}',
        ' {"boot_mode": "bios", "secure_boot": false}\n',
        "boot_mode:bios,secure_boot:false",
        " boot_mode : bios , secure_boot:False,",
    ],
)
def test_each_form_has_the_same_meaning(value):
    assert ASKED == capabilities.parsed(value, FIELD)


@pytest.mark.parametrize("value", [None, "", {}, "{}"])
def test_an_empty_field_asks_for_nothing(value):
    assert {} == capabilities.parsed(value, FIELD)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ('{"boot_mode": "bios"', "is no JSON"),
        ("{'boot_mode': 'bios'}", "is no JSON"),
        ('{"boot_mode": "bios"},', "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ('["boot_mode:bios"]', "must be an object"),
        (["boot_mode:bios"], "not list"),
        (True, "not bool"),
        (7, "not int"),
        ("boot_mode=bios", "'boot_mode=bios' lacks a name or a value"),
        ("boot_mode", "'boot_mode' lacks"),
        ("boot_mode:", "'boot_mode' lacks"),
        (":bios", "'bios' lacks"),
        ('"boot_mode:bios"', "lacks|written|must be"),
        ("boot_mode:bios;secure_boot:true", "boot_mode must be one of uefi, bios"),
        ("boot_mode:legacy", "must be one of uefi, bios, not 'legacy'"),
        ("secure_boot:yes", "must be one of true, false, not 'yes'"),
        ("disk_label:bsd", "must be one of gpt, msdos"),
        ("boot_option:netboot", "must be one of local"),
        ("Boot_Mode:bios", "is written boot_mode"),
        ({"boot-mode": "bios"}, "is written boot_mode"),
        ({"boot_mode": None}, "must be a text, number or boolean"),
        ({"boot_mode": {"mode": "bios"}}, "must be a text, number or boolean"),
        ("boot_mode:bios,boot_mode:uefi", "twice"),
        ('{"boot_mode": "bios", "boot_mode": "uefi"}', "twice"),
        ({"site": "a\nb"}, "lacks a name or a value"),
    ],
)
def test_a_malformed_field_is_refused_with_its_name(value, reason):
    with pytest.raises(InvalidDriverInfo, match=rf"^{FIELD}.*({reason})"):
        capabilities.parsed(value, FIELD)


def test_the_instance_takes_precedence_over_the_machine_and_the_setting():
    machine, instance = (
        {"capabilities": "boot_mode:bios,cpus:4"},
        {"capabilities": "boot_mode:uefi"},
    )
    assert "uefi" == capabilities.boot_mode(target())
    assert "bios" == capabilities.boot_mode(target(properties=machine))
    node = target(properties=machine, instance_info=instance)
    assert "uefi" == capabilities.boot_mode(node)
    assert {"boot_mode": "bios", "cpus": "4"} == capabilities.of_node(node)


@pytest.mark.parametrize("deploy", ["direct", "custom-agent", "ramdisk", "anaconda"])
@pytest.mark.parametrize("field", ["instance_info", "properties"])
def test_validation_of_every_deployment_refuses_malformed_capabilities(deploy, field):
    fields = {"instance_info": {}, "properties": {}}
    fields[field]["capabilities"] = "boot_mode=bios"
    node = target(interfaces={"deploy": deploy}, **fields)
    with pytest.raises(InvalidDriverInfo, match=f"^{field}/capabilities"):
        node.driver.deploy.validate(node)


@pytest.mark.parametrize("values", [{"a": "1,b:2"}, {"a": "1,b"}, {"a:b": "1"}])
def test_a_separator_in_a_name_or_value_is_not_written(values):
    with pytest.raises(InvalidDriverInfo, match=r"^properties/capabilities"):
        capabilities.written(values, "properties/capabilities")


def test_what_is_written_is_read_again():
    values = {"boot_mode": "uefi", "url": "http://host:80"}
    text = capabilities.written(values, FIELD)
    assert "boot_mode:uefi,url:http://host:80" == text
    assert values == capabilities.parsed(text, FIELD)
