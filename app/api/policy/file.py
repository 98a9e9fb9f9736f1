"""Policy engine: oslo.policy with the rules of `defaults`, overridden by the operator's files."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.api.policy.defaults import RULES
from app.config.openstack_settings import OsloPolicy as Options
from app.config.settings import Settings, SettingsError
from app.errors import Unavailable
from app.identity.caller import Caller
from app.observe import log

logger = log.get(__name__)

FILE = "[oslo_policy]policy_file"
#: Seconds for which decisions are cached; then changed policy files are read again.
FRESH = 1.0


def make(settings: Settings) -> "Policy | None":
    """
    Return the policy if callers have roles or a policy file exists, otherwise None.

    None means that every request is allowed, and that secrets are masked.

    Raises SettingsError: a configured policy file is missing or invalid.
    """
    options = settings.oslo_policy
    exists = Path(options.policy_file).exists()
    if not exists and options.policy_file != Options().policy_file:
        raise SettingsError(f"{FILE} {options.policy_file}: there is no such file")
    if not settings.default.has_roles and not exists:
        return None
    return Policy(settings)


class Policy:
    """Decides whether a caller passes a rule."""

    def __init__(self, settings: Settings) -> None:
        from oslo_config import cfg  # imported here: half a second, not needed without a policy
        from oslo_policy import opts, policy

        options = settings.oslo_policy
        conf = cfg.ConfigOpts()
        conf([], project="ingot", default_config_files=[], default_config_dirs=[])
        opts.set_defaults(conf, policy_file=str(Path(options.policy_file).absolute()))
        folders = [str(Path(folder).absolute()) for folder in options.policy_dirs]
        conf.set_override("policy_dirs", folders, group="oslo_policy")
        self._enforcer = policy.Enforcer(conf)
        self._enforcer.register_defaults(
            [
                policy.RuleDefault(
                    rule.name,
                    rule.check,
                    rule.guards,
                    scope_types=list(rule.scopes) if options.enforce_scope else None,
                )
                for rule in RULES.values()
            ]
        )
        self._facts: Mapping[str, Any] = {}
        if settings.default.rbac_service_role_elevated_access:
            project = settings.default.rbac_service_project_name
            self._facts = {"config.service_project_name": project}
        self._decisions: dict[tuple[Any, ...], bool] = {}
        self._decisions_expire_at = 0.0
        self._check_files()

    def _check_files(self) -> None:
        """
        Check the syntax of the policy files, and the names of their rules.

        Raises SettingsError.
        """
        from oslo_policy import policy

        try:
            self._enforcer.load_rules()
            self._enforcer.check_rules(raise_on_violation=True)
        except (ValueError, OSError, policy.InvalidDefinitionError) as error:
            raise SettingsError(f"{FILE}: {' '.join(str(error).split())}") from error
        for name in self._enforcer.file_rules:
            if name.startswith("baremetal:") and name not in RULES:
                raise SettingsError(f"{FILE}: there is no rule {name}")

    def allows(self, rule: str, caller: Caller, facts: Mapping[str, Any]) -> bool:
        """
        Return whether the caller passes the rule.

        facts: attributes of the target, such as `node.owner`; a check of a missing one fails.

        Raises Unavailable: a policy file changed and cannot be read.
        """
        now = time.monotonic()
        if now > self._decisions_expire_at:
            self._decisions, self._decisions_expire_at = {}, now + FRESH
        key = (rule, caller, *facts.items())
        if key not in (
            decisions := self._decisions
        ):  # oslo.policy takes a millisecond per decision
            decisions[key] = self._decide(rule, caller, facts)
        return decisions[key]

    def _decide(self, rule: str, caller: Caller, facts: Mapping[str, Any]) -> bool:
        credentials = caller.credentials
        target = {**credentials, **self._facts, **facts}
        try:
            return bool(self._enforcer.authorize(rule, target, credentials))
        except (ValueError, OSError) as error:
            logger.warning("policy.unreadable", error=str(error))
            raise Unavailable("The policy cannot be read; please contact the operator.") from error
