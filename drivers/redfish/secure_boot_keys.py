"""Redfish: the keys of UEFI Secure Boot, in steps of the management interface."""

from drivers.core.bmc import Bmcs
from drivers.core.errors import NotSupported, Unconfirmed
from drivers.core.steps import Done, Outcome, step
from drivers.core.target import Target
from drivers.redfish.changes.restart import through_restart
from drivers.redfish.transport import client
from drivers.redfish.transport.conversions import by_word, word

#: Values of SecureBootMode with keys, and without.
_ENROLLED, _SETUP = frozenset({"UserMode", "DeployedMode"}), frozenset({"SetupMode"})


class SecureBootKeys:
    """Steps that order SecureBoot.ResetKeys; a part of RedfishManagement."""

    bmcs: Bmcs

    @step(clean=0, deploy=0, service=0, needs_ramdisk=False)
    def reset_secure_boot_keys_to_default(self, target: Target) -> Outcome:
        """Replace all Secure Boot keys by the manufacturer's, and restart the machine if needed."""
        return self._reset_keys(target, "ResetAllKeysToDefault", _ENROLLED)

    @step(clean=0, deploy=0, service=0, needs_ramdisk=False)
    def clear_secure_boot_keys(self, target: Target) -> Outcome:
        """Delete all Secure Boot keys, and restart the machine if needed."""
        return self._reset_keys(target, "DeleteAllKeys", _SETUP)

    def _reset_keys(self, target: Target, kind: str, modes: frozenset[str]) -> Outcome:
        """
        Order a reset of the keys; done once the BMC shows one of the modes.

        kind: ResetKeysType. A mode that was shown before the order proves nothing until a restart.
        """
        if not target.progress:
            previous_mode = self._mode(target)
            try:
                self._order(target, kind)
            except Unconfirmed:
                if previous_mode in modes:  # the mode cannot show whether the keys were replaced
                    raise
            if previous_mode not in modes and self._mode(target) in modes:
                return Done()
        return through_restart(target, lambda: self._mode(target) in modes)

    def _order(self, target: Target, kind: str) -> None:
        """Raises NotSupported: the BMC lacks this kind of reset."""
        with client.turn(target, self.bmcs) as bmc:
            resource = bmc.secure_boot()
            allowed_resets = by_word(resource.get_allowed_reset_keys_values())
            if kind not in allowed_resets:
                raise NotSupported(
                    f"{resource.path}: ResetKeys does not offer {kind},"
                    f" but {', '.join(allowed_resets)}"
                )
            target.before_order()
            resource.reset_keys(allowed_resets[kind])

    def _mode(self, target: Target) -> str:
        """
        Return SecureBootMode.

        Raises NotSupported: the BMC does not show it, so the result of an order stays unknown.
        """
        with client.turn(target, self.bmcs) as bmc:
            resource = bmc.secure_boot()
        mode = word(resource.mode)
        if not mode:
            raise NotSupported(f"{resource.path} has no SecureBootMode, which shows if keys exist")
        return mode
