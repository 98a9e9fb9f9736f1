"""Documents and events of the Redfish BMC of a simulated machine."""
