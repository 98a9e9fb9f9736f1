"""
Releases side by side: what this one understands of others, and needs of those who run its work.

During an upgrade, conductors and API processes of two releases share one fleet. What one hands to
another carries a number; who reads a higher one than it understands leaves the work to somebody
who does. The release before there were numbers counts as 0.

A release that changes what is handed over in a way that the one before would misread raises
UNDERSTOOD. It raises NEEDED to the same only when what it hands over cannot be expressed in the old
way; the release after that may drop the old way.
"""

#: The newest kind of message, question and operation that this code can carry out.
UNDERSTOOD = 1
#: What a conductor has to understand to carry out what this code sends and writes.
NEEDED = 0
