"""Destruction of secrets in the vault that no node refers to any more."""

from app.observe import log
from app.runtime import Runtime
from app.vault import writing
from drivers.core.errors import SecretsUnavailable

logger = log.get(__name__)


def sweep(runtime: Runtime) -> int:
    """Destroy what `writing.sweep` finds; return how many secrets."""
    if runtime.vault is None:
        return 0
    try:
        count = writing.sweep(runtime.engine, runtime.vault)
    except SecretsUnavailable as error:  # the next run goes on
        logger.warning("vault.not_swept", detail=str(error))
        return 0
    if count:
        logger.info("vault.swept", secrets=count)
    return count
