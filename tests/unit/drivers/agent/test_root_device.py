"""Hints for disks are checked before a machine is booted, by the rules of the agent."""

import pytest

from drivers.core.errors import InvalidDriverInfo
from tests.unit.drivers.machines import target

GOOD = [
    {"name": "/dev/sda"},
    {"name": "s== /dev/disk/by-path/pci-0000:00"},
    {"size": 40},
    {"size": "40"},
    {"size": ">= 40"},
    {"size": ">=40"},
    {"size": "<or> 40 <or> 80"},
    {"rotational": False},
    {"rotational": "no"},
    {"rotational": 1},
    {"model": "<in> nvme"},
    {"vendor": "<or> dell inc <or> hpe"},
    {"vendor": "<all-in> dell inc"},
    {"serial": "== 4711"},
    {"wwn": "0x4000cca77fc4dba1", "hctl": "1:0:0:0", "by_path": "/dev/disk/by-path/x"},
    {"wwn_with_extension": "0x1", "wwn_vendor_extension": "0x2", "tran": "sata"},
    {"vendor": "<OR> a <OR> b"},
    {"serial": "silver", "model": "s!= a"},
    {"model": "Samsung <Pro>"},
]
BAD = [
    ("sda", "must be an object"),
    ([1], "must be an object"),
    ([{"name": "/dev/sda"}], "must be an object"),
    (7, "must be an object"),
    ({"wat": 1}, "unknown hint 'wat'"),
    ({"Size": 40}, "unknown hint 'Size'"),
    ({"volume_name": "data"}, "unknown hint"),
    ({"rotational": "maybe"}, "/rotational: 'maybe' is neither"),
    ({"rotational": None}, "/rotational: None is neither"),
    ({"rotational": "s== true"}, "is neither"),
    ({"size": "abc"}, "/size: 'abc' has no whole number"),
    ({"size": "40GB"}, "has no whole number"),
    ({"size": 40.5}, "is not a whole number"),
    ({"size": True}, "is not a whole number"),
    ({"size": 0}, "no whole number above 0"),
    ({"size": "-1"}, "no whole number above 0"),
    ({"size": ">= 40.5"}, "no whole number above 0 after >="),
    ({"size": ">="}, "has no value"),
    ({"size": ""}, "has no value"),
    ({"size": "=> 40"}, "unknown operator"),
    ({"size": "s== 40"}, "unknown operator"),
    ({"size": "<range-in> [ 10 20 ]"}, "unknown operator"),
    ({"size": "<or> 40 <or>"}, "has no value"),
    ({"name": 7}, "/name: 7 is not a text"),
    ({"name": ["/dev/sda"]}, "is not a text"),
    ({"name": ""}, "has no value"),
    ({"name": "  "}, "has no value"),
    ({"name": "s=="}, "has no value"),
    ({"name": "s= /dev/sda"}, "unknown operator"),
    ({"name": "=~ /dev/sd."}, "unknown operator"),
    ({"name": "<not-in> sd"}, "unknown operator"),
    ({"serial": "== abc"}, "no number after =="),
]


def node(deploy="direct", **fields):
    stated = {"image_source": "http://images/disk.raw", "image_checksum": "a" * 64}
    info = stated | fields.pop("instance_info", {})
    return target(interfaces={"deploy": deploy}, instance_info=info, **fields)


@pytest.mark.parametrize("hints", GOOD)
@pytest.mark.parametrize("field", ["properties", "instance_info"])
def test_hints_of_the_agent_are_accepted(field, hints):
    it = node(**{field: {"root_device": hints}})
    it.driver.deploy.validate(it)


@pytest.mark.parametrize(("hints", "reason"), BAD)
@pytest.mark.parametrize("field", ["properties", "instance_info"])
@pytest.mark.parametrize("deploy", ["direct", "custom-agent"])
def test_hints_that_the_agent_would_refuse_are_refused_by_validation(deploy, field, hints, reason):
    it = node(deploy, **{field: {"root_device": hints}})
    with pytest.raises(InvalidDriverInfo, match=rf"^{field}/root_device.*{reason}"):
        it.driver.deploy.validate(it)


@pytest.mark.parametrize("hints", [None, "", {}])
def test_no_hints_are_no_error(hints):
    it = node(properties={"root_device": hints, "skip_block_devices": None})
    it.driver.deploy.validate(it)


@pytest.mark.parametrize(
    ("skipped", "reason"),
    [
        ([{"name": "/dev/sda"}, {"volume_name": "data"}], None),
        ("sda", "must be a list"),
        ({"name": "/dev/sda"}, "must be a list"),
        (["sda"], "skip_block_devices/0 must be an object"),
        ([{"name": "/dev/sda"}, {"wat": 1}], "skip_block_devices/1: unknown hint"),
        ([{"size": "big"}], "skip_block_devices/0/size"),
        ([{"volume_name": 7}], "unknown hint 'volume_name'"),
        ([{}], "must be an object"),
    ],
)
def test_hints_for_disks_to_skip_are_checked(skipped, reason):
    it = node(properties={"skip_block_devices": skipped})
    if reason is None:
        it.driver.deploy.validate(it)
        return
    with pytest.raises(InvalidDriverInfo, match=rf"^properties/.*{reason}"):
        it.driver.deploy.validate(it)
