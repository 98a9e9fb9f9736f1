"""Named lists of steps: deploy templates and runbooks."""

from typing import Any

from sqlalchemy import JSON, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.secret_columns import Document
from app.models.base import Base, Identified, Timestamped

Steps = list[dict[str, Any]]


class DeployTemplate(Identified, Timestamped, Base):
    """Steps of all deployments whose instance has the trait `name`."""

    __tablename__ = "deploy_templates"

    name: Mapped[str] = mapped_column(String(255), unique=True)  # a trait
    description: Mapped[str | None] = mapped_column(String(255))
    # [{interface, step, args, priority}]
    steps: Mapped[Steps] = mapped_column(Document, default=list)
    extra: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # free for operators


class Runbook(Identified, Timestamped, Base):
    """Steps for cleaning or servicing the nodes that have one of its traits."""

    __tablename__ = "runbooks"

    name: Mapped[str] = mapped_column(String(255), unique=True)  # unique; may be a trait
    description: Mapped[str | None] = mapped_column(String(255))
    steps: Mapped[Steps] = mapped_column(Document, default=list)  # [{interface, step, args, order}]
    # the runbook fits nodes with one of them, or with its name as a trait
    traits: Mapped[list[str]] = mapped_column(JSON, default=list)
    # run the steps without booting the ramdisk
    disable_ramdisk: Mapped[bool] = mapped_column(default=False)
    public: Mapped[bool] = mapped_column(default=False)  # usable by all projects
    # project; null if public, or created without a project
    owner: Mapped[str | None] = mapped_column(String(255), index=True)
    extra: Mapped[dict[str, Any]] = mapped_column(Document, default=dict)  # free for operators
