"""Texts of nodes that free words of selections search."""

from sqlalchemy import ForeignKey, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base


class NodeSearch(Base):
    """
    Values of a node that free words search, with ASCII letters in lower case, one value per line.

    A scan of these short rows costs a tenth of one of `nodes`. Triggers of the database write them
    in the transaction of the change, so no statement can omit them: see migration 0029.
    """

    __tablename__ = "node_search"

    node_id: Mapped[int] = mapped_column(
        ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    #: name, UUID, driver, resource class, conductor group, shard, description, instance
    texts: Mapped[str] = mapped_column(Text)
    related: Mapped[str] = mapped_column(Text)  # MAC addresses and traits
    # visible by rules of their own
    last_error: Mapped[str | None] = mapped_column(Text)
    #: addresses of the BMC without credentials, query and fragment
    bmc: Mapped[str | None] = mapped_column(Text)
