"""The fields of a node that an operator sets."""

from app.cli.fields import Field, Fields, Kind
from drivers.core.kinds import KINDS

FIELDS = Fields(
    (
        Field("name", "A name that no other node has"),
        Field("driver", "The hardware type, as redfish"),
        Field("driver_info", "How to reach its BMC", Kind.PAIRS),
        Field("properties", "What it is made of", Kind.PAIRS, "property"),
        Field("extra", "Anything else that is worth remembering", Kind.PAIRS),
        Field("instance_info", "What to deploy", Kind.PAIRS),
        Field("instance_uuid", "The instance that it is given to"),
        Field("instance_name", "The name of that instance"),
        Field("resource_class", "What kind of machine it is, for scheduling"),
        Field("conductor_group", "The conductors that may work on it"),
        Field("owner", "The project that it belongs to"),
        Field("lessee", "The project that may use it"),
        Field("description", "A few words about it"),
        Field("shard", "The part of the fleet that it belongs to"),
        Field("parent_node", "The node that it is a part of"),
        Field("chassis_uuid", "The chassis that it is in", said="chassis"),
        Field("automated_clean", "Clean it before it becomes available", Kind.FLAG),
        Field("protected", "Nothing may destroy its instance", Kind.FLAG),
        Field("protected_reason", "Why it is protected"),
        Field("retired", "It is to leave: no instance is put on it any more", Kind.FLAG),
        Field("retired_reason", "Why it is retired"),
        Field("disable_power_off", "It must never be switched off", Kind.FLAG),
        Field("network_data", "The network of its agent", Kind.JSON),
        *(Field(f"{kind}_interface", f"Its {kind} interface") for kind in KINDS),
    ),
    required=("driver",),
    later=("protected", "protected_reason"),  # a node is made unprotected
)
