"""Traits: what a node is good for, in words that requests for nodes are matched with."""

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base


class NodeTrait(Base):
    """One trait of one node."""

    __tablename__ = "node_traits"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    trait: Mapped[str] = mapped_column(String(255), primary_key=True)
