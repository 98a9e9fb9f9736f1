"""
Compatibility of releases that run side by side during an upgrade.

Messages, calls and operations carry a version number. A conductor leaves those with a higher number
than it understands to conductors of a newer release. Releases before this scheme count as 0.

A release raises UNDERSTOOD when it changes the format of messages, calls or operations so that its
predecessor would misread them. It raises NEEDED to the same number only when it cannot write the
old format; the release after that may drop the old format.
"""

#: Highest version of messages, calls and operations that this release can run.
UNDERSTOOD = 1
#: Version that a conductor must understand to run the work of this release.
NEEDED = 0
