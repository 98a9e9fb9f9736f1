"""Check of the vault: it answers, and its policies allow what this service does."""

from collections.abc import Iterator

from drivers.core.errors import SecretsUnavailable
from drivers.net.vault import Missing
from workers.doctor.checks import Finding, Installation


def unusable(installation: Installation) -> Iterator[Finding]:
    """Find a vault in which secrets cannot be created, read and destroyed."""
    vault = installation.runtime.vault
    if vault is None:
        return
    try:
        vault.examine()
    except SecretsUnavailable as error:
        yield Finding("[vault]", str(error))
    except Missing:
        yield Finding("[vault]", "a secret that was created cannot be read: is it a replica?")
