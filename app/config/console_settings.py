"""Settings about consoles. `app/config/settings.py` has the others, and says how a setting is added."""

# ruff: noqa: E501 - the group is a table: an option, a line

from dataclasses import dataclass

from app.config import hosts
from app.config.option_types import count, launcher, ports_of, seconds
from app.config.options import option
from drivers.net import networks

LOOPBACK = ("127.0.0.0/8", "::1/128")


# fmt: off
@dataclass(frozen=True, slots=True)
class Console:
    socat_address: str = option("127.0.0.1", "Address of this conductor at which consoles have TCP ports, without authentication, for programs such as nova-serialproxy and nova-novncproxy; empty: they have none. The default differs from Ironic's, [DEFAULT]my_ip", check=hosts.optional_listening_host)
    port_range: str = option("", "Range of these ports, as 10000:20000; empty: any free ones", check=ports_of)
    tcp_allowed_networks: tuple[str, ...] = option(LOOPBACK, "Networks whose programs may connect to these ports. Not in Ironic", check=networks.parse)
    history_size: int = count(4, "Most MiB of kept console output of a node on a conductor; 0: none is kept. Not in Ironic")
    history_days: float = seconds(14, "Days after which kept console output is removed. Not in Ironic", minimum=0.01)
    history_path: str = option("", "Directory of kept console output; empty: consoles in the data directory. Not in Ironic")
    streams: int = count(64, "Connections to consoles per process of the API, each two threads; further ones get 503. Not in Ironic")


@dataclass(frozen=True, slots=True)
class Vnc:
    token_timeout: int = count(600, "Seconds for which the address of a graphical console in `states/console` can be opened, once", minimum=10)
    read_only: bool = option(False, "Pass neither keys nor pointer to graphical consoles")
    launcher: str = option("", "Command that starts a VNC server for consoles of the interface redfish-graphical whose BMC has none of its own, at {port} of 127.0.0.1; {node} is the UUID. In its environment are APP and APP_INFO, as containers of Ironic's consoles read them, and so the login of the BMC. Not in Ironic", check=launcher)


# fmt: on
