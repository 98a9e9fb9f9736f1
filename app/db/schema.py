"""
The schema: upgrades to the newest migration.
"""

from pathlib import Path

MIGRATIONS = Path(__file__).resolve().parent.parent.parent / "migrations"


def upgrade(url: str) -> None:
    """
    Bring the schema to the newest revision; two that do so at once wait for each other.

    Raises alembic's CommandError when the database knows revisions that this code does not.
    """
    from alembic import command  # costs start-up time and is needed once
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = url
    command.upgrade(config, "head")
