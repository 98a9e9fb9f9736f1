"""Networks of machines by their switches, without Neutron: network interface `switch`."""
