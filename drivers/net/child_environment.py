"""
Environment of the programs that this service starts.
"""

import os

#: Beginning of the variables that set the service up; some have passwords.
PREFIX = "INGOT_"


def without_settings() -> dict[str, str]:
    """Return the environment of this process without the settings of the service."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
