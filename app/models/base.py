"""Base class of the models, constraint names, keys, timestamps."""

import re
from datetime import datetime

from sqlalchemy import BigInteger, DateTime, Integer, MetaData, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.db.clock import now

NUMBER = BigInteger().with_variant(Integer, "sqlite")


class Base(DeclarativeBase):
    """Base of the models. Constraints have fixed names, so that migrations can refer to them."""

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
    """Name of a model in messages: "volume target" for VolumeTarget."""
    return re.sub("(?<!^)(?=[A-Z])", " ", model.__name__).lower()


class Numbered:
    """Primary key: an integer from the database."""

    id: Mapped[int] = mapped_column(primary_key=True, sort_order=-2)


class Identified(Numbered):
    """Primary key, and the UUID by which callers name the row."""

    uuid: Mapped[str] = mapped_column(String(36), unique=True, sort_order=-1)


class Timestamped:
    """Times of creation and update, by the database's clock."""

    created_at: Mapped[datetime] = mapped_column(default=now())
    # set explicitly, for changes that callers can see; null if not changed yet
    updated_at: Mapped[datetime | None]
