"""Traits of nodes, which allocations and deployments require."""

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base


class NodeTrait(Base):
    """A trait of a node."""

    __tablename__ = "node_traits"

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    trait: Mapped[str] = mapped_column(String(255), primary_key=True)
