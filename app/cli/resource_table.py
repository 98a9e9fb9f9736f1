"""Resources other than nodes, with the fields that operators see and set."""

from app.cli.fields import Field, Fields
from app.cli.fields import Kind as Given
from app.cli.resources import Kind

_EXTRA = Field("extra", "Arbitrary metadata", Given.PAIRS)
_ABOUT = Field("description", "A few words about it")

PORT = Kind(
    "a port",
    "ports, the network interfaces of machines",
    "ports",
    ("address", "name", "node_uuid", "pxe_enabled", "physical_network", "uuid"),
    Fields(
        (
            Field("node_ident", "The node that it belongs to", option_name="node"),
            Field("address", "Its MAC address"),
            Field("name", "A name that no other port has"),
            Field("pxe_enabled", "The machine boots from it", Given.FLAG),
            Field(
                "local_link_connection",
                "Switch and switch port that it is connected to",
                Given.PAIRS,
            ),
            Field("physical_network", "The physical network that it is connected to"),
            Field("portgroup_uuid", "The port group that it belongs to", option_name="portgroup"),
            Field("is_smartnic", "It is a smart NIC", Given.FLAG),
            Field("vendor", "Its manufacturer"),
            Field("category", "Its category"),
            _ABOUT,
            _EXTRA,
        ),
        required=("node_ident", "address"),
        creation_only=("node_ident",),
    ),
    filters=(
        ("node", "of this node"),
        ("address", "with this MAC address"),
        ("portgroup", "of this port group"),
    ),
    name_field="address",
)
DRIVER = Kind(
    "a driver", "drivers, the hardware types that live conductors have loaded", "drivers",
    ("name", "hosts"), paged=False,
)  # fmt: skip
RUNBOOK = Kind(
    "a runbook",
    "runbooks, steps of cleaning and servicing under a name",
    "runbooks",
    ("name", "description", "public", "owner", "uuid"),
    Fields(
        (
            Field("name", "A name that no other runbook has"),
            Field("steps", "Its steps, in their order", Given.STEPS),
            Field("disable_ramdisk", "No agent runs for its steps", Given.FLAG),
            Field("public", "Every project may use it", Given.FLAG),
            Field("owner", "The project that it belongs to"),
            _ABOUT,
            _EXTRA,
        ),
        required=("name", "steps"),
    ),
)
TEMPLATE = Kind(
    "a deploy template",
    "deploy templates, steps of deployments that ask for a trait",
    "deploy_templates",
    ("name", "description", "uuid"),
    Fields(
        (
            Field("name", "The trait that asks for it"),
            Field("steps", "Its steps, each with args and a priority", Given.JSON),
            _ABOUT,
            _EXTRA,
        ),
        required=("name", "steps"),
    ),
)
WEBHOOK = Kind(
    "a webhook",
    "webhooks, receivers of change events",
    "webhooks",
    ("name", "url", "owner", "enabled", "last_error", "uuid"),
    Fields(
        (
            Field("name", "A name that no other webhook has"),
            Field("url", "The URL that events are posted to", option_name="receiver"),
            Field("secret", "Key of the signatures", Given.SECRET, "secret-file"),
            Field("types", "A type of events to post, as node.power_state", Given.WORDS, "type"),
            Field("node_uuid", "The only node whose events are posted", option_name="node"),
            Field("enabled", "Events are posted", Given.FLAG),
            Field("owner", "The project that it belongs to"),
        ),
        required=("name", "url", "secret"),
        creation_only=("owner",),
    ),
    filters=(("owner", "of this project"),),
)
ALLOCATION = Kind(
    "an allocation",
    "allocations, requests for nodes",
    "allocations",
    ("name", "state", "resource_class", "node_uuid", "last_error", "uuid"),
    Fields(
        (
            Field("name", "A name that no other allocation has"),
            Field("resource_class", "The resource class of the node"),
            Field("traits", "A trait that the node must have", Given.WORDS, "trait"),
            Field("candidate_nodes", "A node to choose from", Given.WORDS, "candidate-node"),
            Field("node", "The node, if it is in use already"),
            Field("owner", "The project that it is for"),
            _EXTRA,
        ),
        creation_only=("resource_class", "traits", "candidate_nodes", "node", "owner"),
    ),
    filters=(
        ("node", "of this node"),
        ("resource_class", "for this class"),
        ("state", "in this state: allocating, active, error"),
        ("owner", "of this project"),
    ),
)
NETWORK = Kind(
    "a network",
    "networks, which network interface `switch` connects machines to",
    "networks",
    ("name", "vlan", "tagged_vlans", "owner", "public", "uuid"),
    Fields(
        (
            Field("name", "A name that no other network has"),
            Field("vlan", "Its VLAN without tags", Given.NUMBER),
            Field("tagged_vlans", "Its VLANs with tags, as [20,30]", Given.JSON),
            Field("physical_network", "The physical network that it is in"),
            Field("owner", "The project that may use it"),
            Field("public", "Every project may use it", Given.FLAG),
            _ABOUT,
        ),
        required=("name",),
    ),
    filters=(("owner", "of this project"),),
)
BASELINE = Kind(
    "a baseline",
    "baselines, the facts that are expected of machines",
    "baselines",
    ("name", "selection", "acceptance", "uuid"),
    Fields(
        (
            Field("name", "A name that no other baseline has"),
            Field("selection", "The nodes that it is for, as resource_class=compute"),
            Field("expected", "Its rules, each with field, operator and value", Given.JSON),
            Field(
                "acceptance",
                "A node that does not comply at its inspection gets a hold",
                Given.FLAG,
            ),
            Field(
                "failed_benchmark",
                "Effect of a measured number that differs: record, hold or fail",
            ),
            _ABOUT,
        ),
        required=("name", "selection", "expected"),
    ),
)
SWITCH = Kind(
    "a switch",
    "switches, whose ports the service configures",
    "switches",
    ("name", "switch_id", "device_type", "address", "uuid"),
    Fields(
        (
            Field("name", "A name that no other switch has"),
            Field("switch_id", "Its MAC address, as in local_link_connection of ports"),
            Field("device_type", "Its type, as cisco_ios or ovs_linux"),
            Field("address", "Its host name or IP address"),
            Field("port", "The port of its SSH server", Given.NUMBER),
            Field("username", "The user to log in as"),
            Field("password", "The password of the user", Given.SECRET, "password-file"),
            Field("private_key", "The SSH key of the user", Given.KEY, "private-key-file"),
            Field(
                "enable_password",
                "The password of enable or sudo",
                Given.SECRET,
                "enable-password-file",
            ),
            Field("host_key", "Its public key, as ssh-keyscan prints it"),
            Field("ports", "A pattern of ports to configure, as Ethernet1/*", Given.WORDS, "ports"),
            Field("save_changes", "Changes are saved for its next start", Given.FLAG),
            _ABOUT,
        ),
        required=("name", "switch_id", "device_type", "address", "username", "host_key", "ports"),
    ),
)
