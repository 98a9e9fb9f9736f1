#!/bin/sh
# ssh asks this program for the password of a BMC (SSH_ASKPASS).
printf '%s\n' "$BMC_PASSWORD"
