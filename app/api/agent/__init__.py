"""Routes of the ramdisk agents, and their path in front of Flask."""
