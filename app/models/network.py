"""Networks and switches, for the network interface that configures switch ports itself."""

from sqlalchemy import JSON, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.secret_columns import SealedText
from app.models.base import Base, Identified, Timestamped


class Network(Identified, Timestamped, Base):
    """VLANs that a switch port carries while its machine is in the network."""

    __tablename__ = "networks"

    name: Mapped[str] = mapped_column(String(255), unique=True)
    description: Mapped[str | None] = mapped_column(String(255))
    vlan: Mapped[int | None]  # untagged; null: no untagged frames
    tagged_vlans: Mapped[list[int]] = mapped_column(JSON, default=list)
    physical_network: Mapped[str | None] = mapped_column(String(64))  # null: of any port
    # project that may use it; null and not public: it is a network of agents
    owner: Mapped[str | None] = mapped_column(String(255), index=True)
    public: Mapped[bool] = mapped_column(default=False)  # every project may use it


class Switch(Identified, Timestamped, Base):
    """A switch whose ports the service configures."""

    __tablename__ = "switches"

    name: Mapped[str] = mapped_column(String(255), unique=True)
    description: Mapped[str | None] = mapped_column(String(255))
    # MAC address in lower case, as `switch_id` of ports' `local_link_connection`
    switch_id: Mapped[str] = mapped_column(String(18), unique=True)
    device_type: Mapped[str] = mapped_column(String(32))  # of `SWITCH_DIALECTS`
    address: Mapped[str] = mapped_column(String(255))
    port: Mapped[int] = mapped_column(default=22)
    username: Mapped[str] = mapped_column(String(255))
    password: Mapped[str | None] = mapped_column(SealedText)
    private_key: Mapped[str | None] = mapped_column(SealedText)
    enable_password: Mapped[str | None] = mapped_column(SealedText)
    # public key of the switch, as `ssh-ed25519 AAAA...`
    host_key: Mapped[str] = mapped_column(Text)
    # patterns of the switch ports that the service may configure
    ports: Mapped[list[str]] = mapped_column(JSON, default=list)
    # whether each change is saved for the next start of the switch
    save_changes: Mapped[bool] = mapped_column(default=True)
