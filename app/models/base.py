"""What all models share."""

import re
from datetime import datetime

from sqlalchemy import DateTime, MetaData
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.db.clock import now


class Base(DeclarativeBase):
    """Constraint names are spelled out so that migrations can name them on every database."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(column_0_N_label)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: DateTime()}


def kind_of(model: type[Base]) -> str:
    """What messages call a row: VolumeTarget is a volume target."""
    return re.sub("(?<!^)(?=[A-Z])", " ", model.__name__).lower()


class Timestamped:
    """`updated_at` is None until the first change that a caller can see; services set it."""

    created_at: Mapped[datetime] = mapped_column(default=now())
    updated_at: Mapped[datetime | None]
