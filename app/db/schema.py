"""
Upgrade the database schema to the newest migration.
"""

from pathlib import Path

MIGRATIONS = Path(__file__).resolve().parent.parent.parent / "migrations"


def upgrade(url: str) -> None:
    """
    Upgrade the schema to the newest revision. Concurrent upgrades wait for each other.

    Raises alembic.util.CommandError: the database has a revision that this release does not know.
    """
    from alembic import command  # slow to import, and needed once
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = url
    command.upgrade(config, "head")
