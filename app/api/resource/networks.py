"""
Routes of /v1/networks and /v1/switches, for network interface `switch`: additions to Ironic's API.
"""

from app.api.declarations import versions
from app.api.openapi.shapes import INTEGER, TEXT, array
from app.api.request.routes import Routes
from app.api.resource.resource_routes import ResourceRoutes, by_value, without_context
from app.api.resource.resources import Resource
from app.api.schemas.networks import (
    NetworkChange,
    NetworkCreate,
    NetworksQuery,
    SwitchChange,
    SwitchCreate,
)
from app.api.values.value_types import ListQuery
from app.inventory.connectivity import networks as service
from app.models import Network, Switch

networks = Routes("networks", "Networks and switches, without Neutron")

NETWORK = Resource(
    name="network",
    path="networks",
    schema="Network",
    model=Network,
    short=("uuid", "name", "vlan", "owner", "public"),
    all_fields=(
        "uuid", "created_at", "updated_at", "name", "description", "vlan", "tagged_vlans",
        "physical_network", "owner", "public", "links",
    ),
    names_since=versions.MIN,
    shapes={"tagged_vlans": array(INTEGER)},
)  # fmt: skip
SWITCH = Resource(
    name="switch",
    path="switches",
    schema="Switch",
    model=Switch,
    short=("uuid", "name", "switch_id", "device_type", "address"),
    all_fields=(
        "uuid", "created_at", "updated_at", "name", "description", "switch_id", "device_type",
        "address", "port", "username", "host_key", "ports", "save_changes", "links",
    ),
    names_since=versions.MIN,
    shapes={"ports": array(TEXT)},
)  # fmt: skip


NETWORK_ROUTES = ResourceRoutes(NETWORK, networks, "network", "networks", "baremetal:network")
NETWORK_ROUTES.lists(NetworksQuery, by_value(Network.owner))
NETWORK_ROUTES.creates(NetworkCreate, without_context(service.create))
NETWORK_ROUTES.shows()
NETWORK_ROUTES.changes(NetworkChange(), without_context(service.change))
NETWORK_ROUTES.deletes(without_context(service.remove))

SWITCH_ROUTES = ResourceRoutes(SWITCH, networks, "switch", "switches", "baremetal:switch")
SWITCH_ROUTES.lists(ListQuery, rule="get")
SWITCH_ROUTES.creates(SwitchCreate, without_context(service.create_switch))
SWITCH_ROUTES.shows()
SWITCH_ROUTES.changes(SwitchChange(), without_context(service.change_switch))
SWITCH_ROUTES.deletes(without_context(service.remove_switch))
