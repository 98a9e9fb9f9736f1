"""
The policy engine: oslo.policy with our rules, and what an operator's files put in their place.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app import log
from app.api.policy.defaults import RULES
from app.config.settings import OsloPolicy as Options
from app.config.settings import Settings, SettingsError
from app.errors import Unavailable
from app.kit.caller import Caller

logger = log.get(__name__)

FILE = "[oslo_policy]policy_file"
#: Seconds for which a decision holds; then files that changed are read again.
FRESH = 1.0


def make(settings: Settings) -> "Policy | None":
    """
    The policy, where anybody could ask for it: with Keystone, or to show secrets where a file
    says so. Without one everything is allowed, and secrets stay secret. Raises SettingsError.
    """
    options = settings.oslo_policy
    found = Path(options.policy_file).exists()
    if not found and options.policy_file != Options().policy_file:
        raise SettingsError(f"{FILE} {options.policy_file}: there is no such file")
    if settings.default.auth_strategy != "keystone" and not found:
        return None
    return Policy(settings)


class Policy:
    """Answers whether a caller may do something."""

    def __init__(self, settings: Settings) -> None:
        from oslo_config import cfg  # these cost half a second, and only some need them
        from oslo_policy import opts, policy

        options = settings.oslo_policy
        conf = cfg.ConfigOpts()
        conf([], project="ingot", default_config_files=[], default_config_dirs=[])
        opts.set_defaults(conf, policy_file=str(Path(options.policy_file).absolute()))
        folders = [str(Path(each).absolute()) for each in options.policy_dirs]
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
        self._known: dict[tuple[Any, ...], bool] = {}
        self._known_until = 0.0
        self._check_files()

    def _check_files(self) -> None:
        """The files can be understood, as far as that can be told. Raises SettingsError."""
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
        Whether the caller passes the rule. facts: about what the request is about, by the names
        that rules use; a missing one never matches.

        Raises Unavailable when a file changed and cannot be read.
        """
        now = time.monotonic()
        if now > self._known_until:
            self._known, self._known_until = {}, now + FRESH
        key = (rule, caller, *facts.items())
        if key not in (known := self._known):  # oslo.policy takes a millisecond
            known[key] = self._decide(rule, caller, facts)
        return known[key]

    def _decide(self, rule: str, caller: Caller, facts: Mapping[str, Any]) -> bool:
        credentials = caller.credentials
        target = {**credentials, **self._facts, **facts}
        try:
            return bool(self._enforcer.authorize(rule, target, credentials))
        except (ValueError, OSError) as error:
            logger.warning("policy.unreadable", error=str(error))
            raise Unavailable("The policy cannot be read, please tell the operator.") from error
