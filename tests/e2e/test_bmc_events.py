"""Events of a BMC, through the whole service: a change of power is known long before the sweep."""

from drivers.simulator.simulator import running
from tests.support.fleet import CALM, Fleet, until

SETTINGS = {
    **CALM,
    "INGOT_REDFISH_EVENT_CHECK_INTERVAL": "1",
    "INGOT_CONDUCTOR_SYNC_POWER_STATE_INTERVAL": "86400",
    "INGOT_CONDUCTOR_FORCE_POWER_STATE_DURING_SYNC": "false",
}


def test_a_power_button_and_a_failed_fan_are_known_by_events(tmp_path):
    with running(machines=1) as simulator:
        fleet = Fleet(tmp_path, conductors=1, **SETTINGS)
        port = fleet._words[fleet._words.index("--port") + 1]
        fleet.environ["INGOT_REDFISH_EVENT_RECEIVER_URL"] = f"http://127.0.0.1:{port}"
        with fleet:
            machine = simulator.machines[0]
            body = {"name": "n1", "driver": "redfish", "driver_info": machine.driver_info()}
            assert fleet.http.post(f"{fleet.url}/v1/nodes", json=body, timeout=30).ok
            fleet.provision(["n1"], "manage")
            until(lambda: fleet.get("nodes/n1")["provision_state"] == "manageable", "the node")
            path = "nodes/n1/event_subscription"
            until(lambda: fleet.get(path)["state"] == "proven", "the test event")

            simulator.press(0, on=True)
            until(lambda: fleet.get("nodes/n1")["power_state"] == "power on", "the power state")
            simulator.send_event(0, {
                "MessageId": "Env.1.0.FanFailed", "Severity": "Critical", "Message": "Fan 3 failed.",
            })  # fmt: skip
            until(lambda: "Fan 3 failed" in fleet.get("nodes/n1/why")["summary"], "the alert")
            machine.subscriptions.clear()
            until(lambda: len(machine.subscriptions) == 1, "the next subscription")
            assert fleet.http.delete(f"{fleet.url}/v1/nodes/n1", timeout=30).ok
            until(lambda: not machine.subscriptions, "the end of the subscription")
