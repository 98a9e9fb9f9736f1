"""Networks of machines by Neutron: network interfaces `flat` and `neutron`."""
