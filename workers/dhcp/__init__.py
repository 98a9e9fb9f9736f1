"""DHCP and TFTP that a conductor runs for its machines."""
