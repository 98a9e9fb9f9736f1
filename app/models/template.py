"""Steps that operators keep under a name: deploy templates and runbooks."""

from typing import Any

from sqlalchemy import JSON, String
from sqlalchemy.orm import Mapped, mapped_column

from app.models.base import Base, Timestamped

Steps = list[dict[str, Any]]


class DeployTemplate(Timestamped, Base):
    """
    Steps of every deployment that asks for the trait `name`.

    steps: [{interface, step, args, priority}].
    """

    __tablename__ = "deploy_templates"

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    name: Mapped[str] = mapped_column(String(255), unique=True)
    description: Mapped[str | None] = mapped_column(String(255))
    steps: Mapped[Steps] = mapped_column(JSON, default=list)
    extra: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)


class Runbook(Timestamped, Base):
    """
    Steps to clean or to service nodes with, on nodes that it fits.

    steps: [{interface, step, args, order}]. owner: a project; None when it is `public`.
    traits: nodes with one of them are fit for it; so are those with `name` as a trait.
    """

    __tablename__ = "runbooks"

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), unique=True)
    name: Mapped[str] = mapped_column(String(255), unique=True)
    description: Mapped[str | None] = mapped_column(String(255))
    steps: Mapped[Steps] = mapped_column(JSON, default=list)
    traits: Mapped[list[str]] = mapped_column(JSON, default=list)
    disable_ramdisk: Mapped[bool] = mapped_column(default=False)
    public: Mapped[bool] = mapped_column(default=False)
    owner: Mapped[str | None] = mapped_column(String(255), index=True)
    extra: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
