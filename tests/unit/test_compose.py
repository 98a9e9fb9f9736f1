"""The container deployment, checked without a container engine."""

import re
from pathlib import Path

import pytest
import typer.main
import yaml

from app.config import options
from app.config.settings import Settings, load
from workers import cli

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose/compose.yaml").read_text())
SERVICES = COMPOSE["services"]
EXAMPLE = dict(
    line.split("=", 1)
    for line in (ROOT / "compose/.env.example").read_text().splitlines()
    if line and not line.startswith("#")
)
OURS = [name for name, service in SERVICES.items() if "build" in service]


def environment():
    """Every variable that our services get, with the references of the example filled in."""
    given = {name: value for name, value in EXAMPLE.items() if name.startswith("INGOT_")}
    for name in OURS:
        given |= SERVICES[name]["environment"]
    refer = re.compile(r"\$\{(\w+)[^}]*\}")
    return {name: refer.sub(lambda m: EXAMPLE[m[1]], str(value)) for name, value in given.items()}


def test_each_role_has_its_service():
    assert {"migrate", "api", "files", "conductor", "beat"} == set(OURS)
    assert {"redis", "postgres", "flower"} == set(SERVICES) - set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_the_command_of_each_service_is_one_of_ours(name):
    command = typer.main.get_command(cli.app)
    words = SERVICES[name]["command"]
    for word in words:
        command = command.commands[word]
    whole = getattr(command, "invoke_without_command", True)
    assert whole, f"{words} is not a whole command"


def test_every_variable_is_a_setting_and_its_value_is_right():
    known = {each.variable for each in options.options(Settings)}
    assert set() == set(environment()) - known
    settings = load(environment())
    assert () == settings.warnings
    assert "postgresql://ingot:change-me@postgres:5432/ingot" == settings.database.connection
    assert "redis://:change-me@redis:6379/0" == settings.broker.url


def test_no_file_that_urls_may_name_by_default_lies_in_the_data_directory_of_the_image():
    dockerfile = (ROOT / "compose/Dockerfile").read_text()
    data_dir = re.search(r"INGOT_DATA_DIR=(\S+)", dockerfile)[1]
    for allowed in Settings().conductor.file_url_allowed_paths:
        assert not Path(allowed).is_relative_to(data_dir)
        assert not Path(data_dir).is_relative_to(allowed)


def test_every_reference_is_in_the_example():
    text = (ROOT / "compose/compose.yaml").read_text()
    assert set() == set(re.findall(r"\$\{(\w+)", text)) - set(EXAMPLE)


def test_every_image_is_pinned():
    dockerfile = (ROOT / "compose/Dockerfile").read_text()
    images = [service["image"] for service in SERVICES.values()]
    images += re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert [] == [image for image in images if not re.search(r":v?\d+\.\d+\.?\d*", image)]


def test_the_image_holds_what_a_role_needs():
    copied = set(
        re.findall(
            r"^COPY (?!--)(.+) \S+$", (ROOT / "compose/Dockerfile").read_text(), re.MULTILINE
        )
    )
    words = {word for line in copied for word in line.split()}
    assert {"app", "workers", "drivers", "migrations", "requirements/run.txt"} <= words
    assert [] == [word for word in sorted(words) if not (ROOT / word).exists()]


def test_what_a_service_waits_for_and_mounts_exists():
    for name, service in SERVICES.items():
        for needed, about in service.get("depends_on", {}).items():
            assert needed in SERVICES, name
            if about["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed], needed
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / "compose" / source).is_file(), volume


def test_only_the_api_and_files_are_published_beyond_what_watches():
    published = {name for name, service in SERVICES.items() if "ports" in service}
    assert {"api", "files", "flower"} == published
