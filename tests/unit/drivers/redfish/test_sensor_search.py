"""The search for documents with readings, without a BMC: limits, and malformed documents."""

import pytest

from drivers.redfish import sensors

CHASSIS = "/redfish/v1/Chassis/1"


def search(documents, *, expands=True, chassis=(CHASSIS,)):
    """Search a system with these documents; return the readings' names and the paths read."""
    system = {"Links": {"Chassis": [{"@odata.id": path} for path in chassis]}}
    steps, paths = sensors.sources(system, expands=expands), []
    try:
        path = next(steps)
        while True:
            paths.append(path)
            path = steps.send(documents.get(path))
    except StopIteration as end:
        sources = end.value
    names = [
        reading["name"] for source, document in sources for reading in source.readings(document)
    ]
    return names, paths


def link(path):
    return {"@odata.id": path}


THERMAL = {"Temperatures": [{"Name": "Inlet", "ReadingCelsius": 20}]}


def test_each_chassis_is_searched_and_an_absent_one_left_out():
    documents = {
        "/a": {"Thermal": link("/a/t")}, "/a/t": THERMAL,
        "/b": {"Thermal": link("/a/t"), "Status": {"State": "Absent"}},
        "/c": {"Thermal": link("/c/t")},
    }  # fmt: skip
    names, paths = search(documents, chassis=("/a", "/b", "/c", "/d"))
    assert (["Inlet"], ["/a", "/a/t", "/b", "/c", "/c/t", "/d"]) == (names, paths)


@pytest.mark.parametrize("expands", [True, False])
def test_a_collection_is_asked_for_whole_members_only_where_that_is_allowed(expands):
    sensor = {"Name": "S", "ReadingType": "Power", "Reading": 1}
    documents = {
        CHASSIS: {"Sensors": link("/s")}, "/s": {"Members": [link("/s/1")]}, "/s/1": sensor,
        "/s?$expand=.($levels=1)": {"Members": [sensor]},
    }  # fmt: skip
    names, paths = search(documents, expands=expands)
    assert ["S"] == names
    assert expands == any("$expand" in path for path in paths)
    assert ("/s/1" in paths) is not expands


def test_a_bmc_cannot_make_the_search_endless():
    members = [link(f"/s/{number}") for number in range(5000)]
    documents = {f"/{number}": {"Sensors": link("/s")} for number in range(5000)}
    documents["/s"] = {"Members": members}
    _, paths = search(documents, chassis=[f"/{number}" for number in range(5000)])
    assert sensors.MOST_DOCUMENTS == len(paths)


@pytest.mark.parametrize(
    "odd", [None, [], "x", 7, True, {"@odata.id": 7}, {"@odata.id": None}, [[]]]
)
def test_malformed_documents_have_no_readings(odd):
    for name in ("Thermal", "Sensors", "ThermalSubsystem", "PowerSubsystem", "EnvironmentMetrics"):
        assert [] == search({CHASSIS: {name: odd}})[0]
        for inner in (
            "Temperatures", "Fans", "Members", "ThermalMetrics", "TemperatureReadingsCelsius",
            "PowerSupplies", "PowerWatts",
        ):  # fmt: skip
            assert [] == search({CHASSIS: {name: link("/x")}, "/x": {inner: odd}})[0]
    assert [] == search({}, chassis=(odd,))[0]


def test_a_number_of_any_size_is_no_error():
    documents = {CHASSIS: {"Thermal": link("/t")}, "/t": {"Temperatures": [
        {"Name": "huge", "ReadingCelsius": 10**400},
    ]}}  # fmt: skip
    assert ["huge"] == search(documents)[0]


def test_a_fan_in_percent_keeps_its_unit():
    fan = {"Name": "F", "ReadingType": "Rotational", "Reading": 40, "ReadingUnits": "%"}
    (reading,) = sensors._of_sensor(fan)
    assert ("%", 40) == (reading["unit"], reading["reading"])
    (reading,) = sensors._of_fan({"Name": "F", "SpeedPercent": {"Reading": 40}})
    assert ("%", 40) == (reading["unit"], reading["reading"])
