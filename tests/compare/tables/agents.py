"""Requests of ramdisk agents: lookup, heartbeat, inspection report."""

from tests.compare.asks import (
    UUID,
    Raw,
    around,
    at_each,
    change,
    delete,
    get,
    node,
    post,
    put,
    verb,
)
from tests.support.certificates import PEM

_MAC = "52:54:00:00:09:01"
_BEAT = {"callback_url": "https://127.0.0.1:9", "agent_token": "{token}", "agent_version": "1.0"}
_HEART = "/v1/heartbeat/{node}"
_FOUND = {
    "inventory": {
        "interfaces": [{"mac_address": _MAC}],
        "cpu": {"count": 4},
        "memory": {"physical_mb": 1024},
        "disks": [],
        "bmc_address": "10.0.0.1",
    }
}

TABLE = [
    node(name="named", driver_info={"fast_track": True}, deploy_interface="direct"), node("slow"),
    post("/v1/ports", {"node_uuid": "{node}", "address": _MAC}),
    post("/v1/ports", {"node_uuid": "{slow}", "address": "52:54:00:00:09:02"}), verb("manage"),
    *around(get(f"/v1/lookup?addresses={_MAC}", note="no token yet"), 22)[:1], get("/v1/lookup"),
    get("/v1/lookup?addresses="), get("/v1/lookup?addresses=x"),
    get("/v1/lookup?addresses=52:54:00:00:09:99"), get(f"/v1/lookup?node_uuid={UUID}"),
    get("/v1/lookup?node_uuid=x"), get("/v1/lookup?node_uuid=named"), get("/v1/lookup?colour=red"),
    get(f"/v1/lookup?addresses={_MAC}&colour=red"), get("/v1/lookup?addresses=52:54:00:00:09:02"),
    get("/v1/lookup?node_uuid={slow}"), get(f"/v1/lookup?addresses={_MAC},52:54:00:00:09:02"),
    post("/v1/lookup", {}), put("/v1/lookup", {}),
    post(_HEART, {**_BEAT, "agent_token": "x"}, note="before lookup"), get("/v1/lookup/x"),
    get("/v1/lookup?node_uuid={node}", at="1.61", note="no token yet"),
    get("/v1/lookup?node_uuid={node}", save={"token": "config.agent_token"}),
    get("/v1/lookup?node_uuid={node}", note="again"), get(f"/v1/lookup?addresses={_MAC}"),
    get(f"/v1/lookup?addresses={_MAC.upper()},52:54:00:00:09:98"),
    get("/v1/lookup?addresses=x&node_uuid={node}"),
    get(f"/v1/lookup?addresses=x,{_MAC}"), *at_each(get("/v1/lookup?node_uuid={node}"), 22, 61, 62),
    get("/v1/lookup.json?node_uuid={node}", at="1.62"), get("/v1/lookup/?node_uuid={node}"),
    get("/lookup?node_uuid={node}"), get("/v1/nodes/{node}?fields=driver_internal_info"),
    # heartbeats
    around(post(_HEART, _BEAT), 22)[0], post(_HEART), post(_HEART, {}), post(_HEART, []),
    post(_HEART, {"callback_url": "https://127.0.0.1:9"}),
    post(_HEART, {**_BEAT, "agent_token": "wrong"}), post(_HEART, {**_BEAT, "agent_token": ""}),
    post(_HEART, {**_BEAT, "agent_token": None}), post(_HEART, {**_BEAT, "callback_url": None}),
    post(_HEART, {**_BEAT, "callback_url": "ftp://x"}),
    post(_HEART, {**_BEAT, "callback_url": "x"}),
    post(_HEART, {**_BEAT, "callback_url": "http://127.0.0.1:9"}),
    post(_HEART, {"callback_url": "https://127.0.0.1:9", "agent_token": "{token}"}),
    post(_HEART, {**_BEAT, "colour": "red"}), post(_HEART, {**_BEAT, "agent_status": "odd"}),
    post(_HEART, {**_BEAT, "agent_version": 5}),
    post("/v1/heartbeat/missing", {**_BEAT, "agent_token": "x"}),
    post(f"/v1/heartbeat/{UUID}", {**_BEAT, "agent_token": "x"}),
    post("/v1/heartbeat/a%20b", {**_BEAT, "agent_token": "x"}), post("/v1/heartbeat", _BEAT),
    get(_HEART), put(_HEART, {}), get("/v1/heartbeat"),
    *[ask
      for key, value, since in (("agent_version", "1.0", 36), ("agent_token", "{token}", 62), ("agent_verify_ca", "ca", 68), ("agent_status", "start", 72), ("agent_status_message", "m", 72)) for ask in around(post(_HEART, {"callback_url": "ftp://x", key: value}), since)],
    # each takes Ironic's lock for a moment, shortly after its response
    *[ask
      for path, note in ((_HEART, ""), (_HEART, "again"), ("/v1/heartbeat/named", ""))
      for ask in (
          post(path, _BEAT, note=note, settle="/v1/nodes/{node}"),
          get("/v1/nodes/{node}/states", note="beaten", settle="/v1/nodes/{node}")
      )],
    post(_HEART, {**_BEAT, "callback_url": "https://127.0.0.1:10"}, note="moved"),
    post(_HEART, {**_BEAT, "agent_status": "start", "agent_status_message": "m"}),
    # Ironic records certificates some time after its response, so a second one is not compared here
    post(_HEART, {**_BEAT, "agent_verify_ca": PEM}, settle="/v1/nodes/{node}"),
    # without its reservation: Ironic locks the node some time after its response
    get("/v1/nodes/{node}?fields=provision_state,last_error,driver_internal_info", note="beating"),
    post(_HEART, Raw(b"{")),
    post("/v1/heartbeat/{slow}", {**_BEAT, "agent_token": "x"}),
    get("/v1/lookup?node_uuid={node}", note="has called"),
    get(f"/v1/lookup?addresses={_MAC}", at="1.61", note="has called"),
    # a ramdisk during cleaning
    change("/v1/nodes/{slow}", ("replace", "/deploy_interface", "direct")), verb("manage", "slow"),
    verb("provide", "slow"), get("/v1/nodes/{slow}/states"),
    get("/v1/lookup?node_uuid={slow}", at="1.62", save={"slow_token": "config.agent_token"}),
    get("/v1/lookup?addresses=52:54:00:00:09:02", at="1.62"), verb("abort", "slow"),
    get("/v1/nodes/{slow}/states", note="aborted"),
    get("/v1/lookup?node_uuid={slow}", note="aborted"), delete("/v1/nodes/{slow}", note="aborted"),
    # results of an inspection
    *[post("/v1/continue_inspection", body)
      for body in (
          {}, [], {"inventory": {}}, {"inventory": {"interfaces": []}},
          {"inventory": {"interfaces": [{}]}}, {"inventory": "x"}, _FOUND
      )],
    *at_each(post("/v1/continue_inspection", _FOUND), 1, 2, 83, 84),
    post("/v1/continue_inspection", _FOUND, at=None),
    post("/v1/continue_inspection?node_uuid={node}", _FOUND),
    post(f"/v1/continue_inspection?node_uuid={UUID}", _FOUND),
    post("/v1/continue_inspection?node_uuid=x", _FOUND),
    post("/v1/continue_inspection?colour=red", _FOUND), post("/v1/continue_inspection"),
    get("/v1/continue_inspection"), put("/v1/continue_inspection", {}),
    # last, because Ironic opens the text as a path in every later contact with the agent
    post(_HEART, {**_BEAT, "agent_verify_ca": "ca"}),
]  # fmt: skip
