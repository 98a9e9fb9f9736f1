"""
Comparison of an ironic.conf with the settings of this service: the report of `ingot config import`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from app.config import files, options
from app.config.ironic_options import IRONIC_ONLY
from app.config.option_values import convert
from app.config.settings import Settings, SettingsError
from app.text.masking import mask_urls


class Verdict(StrEnum):
    """Effect of an option of Ironic on this service, the most serious one first."""

    STOPS = "would stop the start"
    MISSING = "a function that you use is missing"
    UNKNOWN = "unknown to Ironic and to Ingot, ignored"
    HARMLESS = "without effect here, harmless"
    HONOURED = "honoured"


@dataclass(frozen=True, slots=True)
class Finding:
    """An option of the file, and its effect."""

    place: str  # "group.name"
    verdict: Verdict
    value: Any  # converted, if honoured; else as in the file
    reason: str  # empty if there is nothing to say

    @property
    def shown(self) -> str:
        """The value, without secrets."""
        name = self.place.partition(".")[2]
        text = str(self.value)
        secret = any(word in name for word in ("password", "secret", "token", "key_id"))
        return "***" if secret and text else mask_urls(text)


#: Options of Ironic -> the missing function, and the way around it, if there is one. Patterns of
#: `fnmatch`; the first that fits counts. Options that none fits are harmless.
FUNCTIONS: Mapping[str, str] = {
    "neutron.allow_disabling_power_off": "tenant networks of machines that must stay on",
    "neutron.*": "options of Neutron's clients beyond those that are honoured",
    "glance.*": "options of Glance's clients beyond those that are honoured",
    "nova.*": "options of Nova's clients beyond those that are honoured",
    "cinder.*": "volumes of Cinder beyond the options that are honoured",
    "swift.*": "object storage",
    "*.*swift*": "object storage; files are kept on the conductor and in the database",
    "dnsmasq.*": "DHCP options of ports; see `ingot dhcp-config`",
    "pxe_filter.*": "DHCP filters for unknown machines; see `ingot dhcp-config`",
    "sensor_data.*": "a choice of sensors: all are read, and none of conductors",
    "conductor.send_sensor_data*": "the older names of the options in [sensor_data]",
    "metrics.backend": "statsd; metrics are served to Prometheus by [metrics]port",
    "oci.verify_ca": "a CA for registries alone; [DEFAULT]webserver_verify_ca is for all",
    "agent_containers.*": "containers on the ramdisk",
    "ansible.*": "deploy interface ansible",
    "vnc.container_*": "containers of graphical consoles; see [vnc]launcher",
    "vnc.console_image": "containers of graphical consoles; see [vnc]launcher",
    "vnc.*": "ironic-novncproxy; the API itself shows graphical consoles",
    "nfs.*": "boot media on NFS; they are served by HTTP",
    "cifs.*": "boot media on CIFS; they are served by HTTP",
    "cors.*": "browsers of other origins; put a proxy in front",
    "mdns.*": "announcements by multicast DNS",
    "conductor.enable_mdns": "announcements by multicast DNS",
    "ironic_networking*.*": "control of switches",
    "conductor.*trait_based_networking*": "networks by traits",
    "api.unix_socket*": "the API on a unix socket; it listens on [api]host_ip and port",
    "agent.certificates_path": "a folder for certificates of agents; they are in the database",
    "*.*_template*": "templates of boot scripts of your own",
    "pxe.ipxe_*_script": "templates of boot scripts of your own",
    "deploy.image_server_*": "credentials of image servers; put them into the URLs",
    "oslo_middleware.enable_proxy_headers_parsing": "set [api]trusted_proxies and public_endpoint",
    "service_catalog.*": "set [api]public_endpoint and [deploy]external_callback_url",
    "database.slave_connection": "reads from a replica",
}  # fmt: skip
#: Values that switch a function off.
_OFF = {"", "false", "no", "off", "0", "none", "noop"}


def examine(path: Path) -> list[Finding]:
    """
    Return the findings about each option of a file or a folder, the most serious ones first.

    Raises SettingsError: a file is not readable, or a reference in it leads nowhere.
    """
    order = list(Verdict)
    return sorted(
        _findings(path), key=lambda finding: (order.index(finding.verdict), finding.place)
    )


def _findings(path: Path) -> Iterator[Finding]:
    table = {f"{option.group}.{option.name}": option for option in options.options(Settings)}
    current_names = {
        old_name: name for name, option in table.items() for old_name in option.about.deprecated
    }
    defaults = {place: option.default for place, option in table.items()}
    try:
        entries = list(files.entries(path, {}, defaults))
    except files.NotReadable as error:
        raise SettingsError(str(error)) from None
    for entry in entries:
        place = current_names.get(entry.place, entry.place)
        if place in table:
            yield _of_setting(table[place], place, entry.value)
        else:
            yield _of_ironic(place, entry.value)


def _of_setting(option: options.Option, place: str, value: object) -> Finding:
    try:
        return Finding(place, Verdict.HONOURED, convert(option, value), "")
    except ValueError as error:
        return Finding(place, Verdict.STOPS, value, str(error))


def _of_ironic(place: str, value: object) -> Finding:
    group, _, name = place.partition(".")
    names = IRONIC_ONLY.get(group, frozenset())
    if name not in names and "*" not in names:
        return Finding(place, Verdict.UNKNOWN, value, "")
    for pattern, function in FUNCTIONS.items():
        if fnmatchcase(place, pattern):
            if str(value).strip().lower() in _OFF:
                return Finding(place, Verdict.HARMLESS, value, "the function is off")
            return Finding(place, Verdict.MISSING, value, function)
    return Finding(place, Verdict.HARMLESS, value, "")
