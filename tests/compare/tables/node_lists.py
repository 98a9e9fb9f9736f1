"""Lists of nodes: short and detailed, filtered, sorted, paged."""

from tests.compare.asks import UUID, around, at_each, available, change, get, node, put, verb

_FILTERS = (
    "instance_uuid={instance}", f"instance_uuid={UUID}", "instance_uuid=x", "associated=true",
    "associated=0",
    "associated=maybe", "associated=", "maintenance=true", "maintenance=False", "maintenance=x",
    "maintenance=yes&associated=no", "provision_state=enroll", "provision_state=active",
    "provision_state=nothing", "provision_state=", "driver=fake-hardware", "driver=missing",
    "driver=",
    "resource_class=a", "resource_class=b", "resource_class=", "fault=none",
    "fault=power%20failure",
    "fault=clean%20failure", "fault=x", "fault=", "conductor_group=", "conductor_group=x",
    "conductor_group=X",
    "conductor=rack-1", "conductor=x", "conductor=RACK-1", "owner=me", "owner=you", "owner=",
    "lessee=me",
    "lessee=you", "project=me", "project=x", "description_contains=ex", "description_contains=EX",
    "description_contains=%25", "description_contains=_", "description_contains=", "retired=true",
    "retired=false", "retired=x", "shard=one", "shard=one,two", "shard=", "shard=x", "shard=One",
    "sharded=true",
    "sharded=false", "sharded=x", "shard=one&sharded=true", "include_children=true",
    "include_children=false",
    "include_children=x", "parent_node={first}", "parent_node=first", f"parent_node={UUID}",
    "parent_node=x%20y",
    "parent_node={first}&include_children=true", "instance_name=vm", "instance_name=x",
    "instance_name=",
    f"chassis_uuid={UUID}", "chassis_uuid=x", "chassis_uuid=", "id=1", "name=first",
    "uuid={first}",
    "power_state=x", "owner=me&driver=fake-hardware&provision_state=enroll", "traits=CUSTOM_A",
    "disable_power_off=true", "protected=true", "automated_clean=true",
)  # fmt: skip
_SHAPES = (
    "detail=true", "detail=false", "detail=x", "detail=", "detail=true&fields=uuid",
    "detail=false&fields=uuid",
    "fields=uuid", "fields=uuid,name", "fields=name,links", "fields=colour", "fields=uuid,colour",
    "fields=",
    "fields=traits", "fields=conductor", "fields=allocation_uuid", "fields=chassis_uuid",
    "fields=states", "fields=ports", "fields=driver_info,instance_info,extra,properties",
    "fields=created_at",
    "fields=updated_at", "fields=links", "fields=health,shard,owner,lessee",
    "fields=provision_updated_at",
)  # fmt: skip
_PAGES = (
    "limit=1", "limit=2", "limit=100", "limit=100000", "limit=0", "limit=-1", "limit=x", "limit=",
    "limit=1.5",
    "limit=99999999999999999999", "limit=4", "limit=5", "limit=3&marker={first}", "marker={first}",
    "marker={last}",
    "marker=first", f"marker={UUID}", "marker=x%20y", "marker=",
    "limit=1&sort_key=name&sort_dir=desc",
    "limit=1&detail=true", "limit=1&fields=uuid,name", "limit=1&associated=false",
    "limit=1&maintenance=true",
    "limit=1&maintenance=false", "limit=1&driver=fake-hardware&owner=me", "limit=1&retired=true",
    "limit=1&instance_uuid={instance}", "limit=1&fields=name", "limit=1&provision_state=enroll",
    "limit=2&marker={first}&sort_key=uuid&sort_dir=asc", "limit=1&conductor=rack-1",
)  # fmt: skip
_ORDERS = (
    "uuid", "name", "id", "created_at", "updated_at", "driver", "provision_state", "power_state",
    "owner", "lessee",
    "resource_class", "conductor_group", "maintenance", "instance_uuid", "chassis_id",
    "chassis_uuid", "shard",
    "properties", "driver_info", "extra", "instance_info", "driver_internal_info", "clean_step",
    "deploy_step",
    "service_step", "raid_config", "target_raid_config", "traits", "network_data", "colour",
    "conductor",
    "allocation_uuid", "allocation_id", "conductor_affinity", "version", "parent_node",
    "boot_interface", "health",
    "retired", "protected", "automated_clean", "description", "links", "inspection_started_at", "",
    "reservation",
    "last_error", "NAME",
)  # fmt: skip
#: parameter -> first minor version that accepts it
_SINCE = {
    "fields=uuid": 8, "provision_state=enroll": 9, "driver=x": 16, "resource_class=x": 21,
    "fault=power%20failure": 42,
    "detail=true": 43, "conductor_group=x": 46, "conductor=x": 49, "owner=x": 50,
    "description_contains=x": 51,
    "retired=true": 61, "lessee=x": 65, "shard=x": 82, "sharded=true": 82,
    "include_children=true": 83,
    "parent_node={first}": 83, "instance_name=x": 104, "project=x": 65, "sort_key=owner": 50,
    "sort_key=resource_class": 21, "sort_key=name": 5, "fields=owner": 50, "sort_key=shard": 82,
}  # fmt: skip


def _uuid(number):
    """A UUID whose order is not that of creation."""
    return f"{number}0000000-2222-4333-8444-555555555555"


TABLE = [
    get("/v1/nodes"), get("/v1/nodes/detail"), get("/v1/nodes?limit=1"),
    node("first", uuid=_uuid(3), name="first", description="An example", resource_class="a"),
    node(
        "second", uuid=_uuid(2), name="second", instance_uuid="99999999-2222-4333-8444-555555555555", shard="one",
        instance_name="vm"
    ),
    get("/v1/nodes/second", save={"instance": "instance_uuid"}),
    node("third", uuid=_uuid(1), shard="two", retired=True),
    change("/v1/nodes/{third}", ("replace", "/lessee", "me")),
    put("/v1/nodes/{third}/maintenance", {"reason": "x"}),
    node("child", parent_node="{first}"),
    change("/v1/nodes/{first}", ("replace", "/owner", "me"), ("replace", "/lessee", "you")),
    *available("last", uuid=_uuid(4), name="last"), verb("active", "last"),
    *at_each(get("/v1/nodes"), 1, 2, 5, 8, 43, 50, 104, 115), get("/v1/nodes", at=None),
    get("/v1/nodes/"),
    *at_each(get("/v1/nodes/detail"), 1, 2, 12, 31, 50, 83, 115), get("/v1/nodes/detail/"),
    *[get(f"/v1/nodes?{query}") for query in (*_FILTERS, *_SHAPES, *_PAGES)],
    *[get(f"/v1/nodes/detail?{query}") for query in (
        "limit=1", "limit=0", "fields=uuid", "detail=true", "associated=true",
        "provision_state=enroll", "shard=one",
        "include_children=true", "include_children=x", "parent_node={first}", "sort_key=name",
        "sort_key=extra", "marker={first}",
        "driver=missing", "owner=me", "conductor=rack-1", "retired=true", "colour=red",
        "description_contains=ex",
        "instance_name=vm", "instance_uuid={instance}", "sharded=true", "resource_class=a",
        "project=me", "fault=x",
        "maintenance=true", "lessee=me",
    )],
    *[get(f"/v1/nodes?fields=name,uuid&sort_key={key}") for key in _ORDERS],
    get("/v1/nodes?sort_dir=desc"), get("/v1/nodes?sort_dir=x"), get("/v1/nodes?sort_dir=DESC"),
    get("/v1/nodes?sort_dir="),
    *[ask for query, since in _SINCE.items() for ask in around(get(f"/v1/nodes?{query}"), since)],
    *[ask
      for query in ("owner=x", "shard=x", "instance_name=x") for ask in around(get(f"/v1/nodes/detail?{query}"), _SINCE[query])],
    get("/v1/nodes/{first}/detail"), get("/v1/nodes/detail/x"), get("/v1/nodes/detail.json"),
    get("/v1/nodes/{first}/children"),
    *around(get("/v1/nodes/{first}/children"), 83), get("/v1/nodes/first/children"),
    get("/v1/nodes/{last}/children"),
    get("/v1/nodes/missing/children"), get("/v1/shards"), *around(get("/v1/shards"), 82),
    get("/v1/shards/x"), get("/v1/shards?x=1"),
]  # fmt: skip
