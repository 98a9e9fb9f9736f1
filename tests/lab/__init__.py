"""The lab: virtual machines with real firmware, real BMCs and the real agent (docs/lab.md)."""
