"""The container deployment, checked without a container engine."""

import hashlib
import json
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import typer.main
import yaml

from app.config.settings import Settings, load
from app.db import master_keys
from app.rows.database_users import USERS
from drivers.images import conversion
from drivers.ipmi import ipmitool
from tests.containers import page
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


@pytest.fixture(scope="module")
def secrets_folder(tmp_path_factory):
    """The folder of the secrets that the script makes, in a copy."""
    copy = tmp_path_factory.mktemp("made") / "compose"
    shutil.copytree(ROOT / "compose", copy, ignore=shutil.ignore_patterns("secrets", ".env"))
    for _ in range(2):  # the second run changes nothing
        subprocess.run([copy / "secrets.sh"], check=True, timeout=60)
    return copy / "secrets"


def environment(name, secrets_folder):
    """All variables of a service of ours, with the paths of its secrets on this machine."""
    variables = {name: value for name, value in EXAMPLE.items() if name.startswith("INGOT_")}
    variables |= SERVICES[name]["environment"]
    return {
        key: str(value).replace("/run/secrets", str(secrets_folder))
        for key, value in variables.items()
    }


def test_each_role_has_its_service():
    assert {"migrate", "api", "files", "conductor", "beat"} == set(OURS)
    assert {"redis", "postgres", "flower", "prometheus", "grafana"} == set(SERVICES) - set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_the_command_of_each_service_is_one_of_ours(name):
    command = typer.main.get_command(cli.app)
    words = SERVICES[name]["command"]
    options = [word for word in words if word.startswith("-")]
    for word in words[: len(words) - len(options)]:
        command = command.commands[word]
    assert set(options) <= {option for parameter in command.params for option in parameter.opts}
    whole = getattr(command, "invoke_without_command", True)
    assert whole, f"{words} is not a whole command"


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_a_setting_with_a_valid_value(name, secrets_folder):
    settings = load(environment(name, secrets_folder))
    assert () == settings.warnings
    if name == "files":
        assert "" == settings.broker.url == settings.database.connection
        return
    user, of_role = ("ingot", "") if name == "migrate" else (f"ingot_{name}", f"_{name}")
    password = (secrets_folder / f"postgres_password{of_role}").read_text()
    assert f"postgresql://{user}:{password}@postgres:5432/ingot" == settings.database.connection
    assert master_keys.masters_of(Path(settings.database.secrets_key_file).read_text())
    if name != "migrate":
        password = (secrets_folder / f"redis_password_{name}").read_text()
        assert f"redis://{name}:{password}@redis:6379/0" == settings.broker.url


def test_each_role_has_its_own_credentials_and_no_others(secrets_folder):
    """A role mounts the secrets that its variables name."""
    for name, service in SERVICES.items():
        text = json.dumps(service)
        if name == "postgres":
            users = (ROOT / "compose/postgres-users.sh").read_text()
            text += "".join(users.replace("$role", role) for role in USERS)
        secrets = set(re.findall(r"/run/secrets/(\w+)", text))
        assert secrets == set(service.get("secrets", [])), name
        assert secrets <= set(COMPOSE["secrets"])
    assert "secrets" not in SERVICES["files"]
    brokers = [
        secret_name
        for name in SERVICES
        for secret_name in SERVICES[name].get("secrets", [])
        if "redis_url" in secret_name
    ]
    assert len(brokers) == len(set(brokers)) == 4
    databases = [
        secret_name
        for name in OURS
        for secret_name in SERVICES[name].get("secrets", ())
        if "database_url" in secret_name
    ]
    assert len(databases) == len(set(databases)) == 4
    for secret in COMPOSE["secrets"].values():
        assert (secrets_folder.parent / secret["file"]).is_file()
    assert 0o700 == stat.S_IMODE(secrets_folder.stat().st_mode)
    passwords = [path.read_text() for path in secrets_folder.glob("*password*")]
    assert len(passwords) == len(set(passwords)) == 10
    assert min(map(len, passwords)) >= 32


def test_no_secret_is_in_an_argument_a_variable_or_the_example():
    text = (ROOT / "compose/compose.yaml").read_text()
    assert [] == re.findall(r"requirepass|\$\{\w*(?:PASSWORD|SECRET|KEY)", text)
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            assert name.endswith("_FILE") or not re.search(
                "PASSWORD|SECRET|URL|CONNECTION", name
            ), value
    assert [] == [name for name in EXAMPLE if re.search("PASSWORD|SECRET|KEY", name)]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_no_more_rights_than_it_needs(name):
    service = SERVICES[name]
    assert service["read_only"]
    assert ["ALL"] == service["cap_drop"]
    assert ["no-new-privileges:true"] == service["security_opt"]
    assert {"privileged", "cap_add", "network_mode", "pid"}.isdisjoint(service)
    writable = [volume for volume in service.get("volumes", []) if not volume.endswith(":ro")]
    assert writable == {
        "conductor": ["state:/var/lib/ingot"],
        "redis": ["redis:/data"],
        "postgres": ["postgres:/var/lib/postgresql/data", "postgres-socket:/var/run/postgresql"],
        "prometheus": ["prometheus:/prometheus"],
        "grafana": ["grafana:/var/lib/grafana"],
    }.get(name, [])


def test_the_passwords_of_redis_are_those_of_its_users(secrets_folder):
    users = {
        line.split()[1]: line.split()
        for line in (secrets_folder / "redis_users").read_text().splitlines()
    }
    assert {"default", "health", "api", "conductor", "beat", "flower"} == set(users)
    for name in set(users) - {"default", "health"}:
        password = (secrets_folder / f"redis_password_{name}").read_bytes()
        assert f"#{hashlib.sha256(password).hexdigest()}" in users[name]
    assert ["on", "nopass", "resetkeys", "resetchannels", "-@all", "+ping"] == users["health"][2:]


def test_redis_may_replay_the_transactions_of_its_file_and_no_client_logs_in_as_default(
    secrets_folder,
):
    """Redis before 8.4 checks the transactions of its file against the rights of that user."""
    users = (secrets_folder / "redis_users").read_text().splitlines()
    assert "user default off resetchannels ~* +@all" in users


def test_the_default_directories_of_file_urls_are_outside_of_the_images_data_directory():
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
    references = [service["image"] for service in SERVICES.values()]
    references += [SERVICES[name]["build"]["args"]["PYTHON_IMAGE"] for name in OURS]
    images = dict(re.findall(r"\$\{(\w+):-(\S+)\}", " ".join(references)))
    assert images == {name: image for name, image in EXAMPLE.items() if name.endswith("_IMAGE")}
    assert f"ARG PYTHON_IMAGE={images['PYTHON_IMAGE']}\n" in dockerfile
    bases = set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE))
    assert {"${PYTHON_IMAGE}", "scratch"} == bases
    assert [] == [
        image for image in images.values() if not re.search(r":v?\d+\.\d+(\.\d+)?", image)
    ]
    ours = {reference for reference in references if not reference.startswith("$")}
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert {f"ingot:{version[1]}"} == ours


def test_each_argument_of_the_image_is_a_variable_of_the_site():
    """An argument of a command line alone would be lost by the build of the next upgrade."""
    dockerfile = (ROOT / "compose/Dockerfile").read_text()
    arguments = dict(re.findall(r"^ARG (\w+)=(.*)$", dockerfile, re.MULTILINE))
    for name in OURS:
        assert SERVICES[name]["build"]["args"] == {
            argument: f"${{{argument}:-{value}}}" for argument, value in arguments.items()
        }
    assert arguments == {argument: EXAMPLE[argument] for argument in arguments}


def test_the_image_contains_the_files_of_every_role():
    copied = set(
        re.findall(
            r"^COPY (?!--)(.+) \S+$", (ROOT / "compose/Dockerfile").read_text(), re.MULTILINE
        )
    )
    words = {word for line in copied for word in line.split()}
    assert {"app", "workers", "drivers", "migrations", "requirements/run.txt"} <= words
    read_by_build = re.findall(r'file = \["(\S+)"\]', (ROOT / "pyproject.toml").read_text())
    names = {"run", "mysql", "openstack", "otel", "switch"}
    assert {f"requirements/{name}.in" for name in names} == set(read_by_build)
    assert {f"requirements/{name}.txt" for name in names} <= words
    assert set(read_by_build) <= words
    assert [] == [word for word in sorted(words) if not (ROOT / word).exists()]


def test_the_image_has_the_boot_loaders_that_the_settings_name():
    dockerfile = (ROOT / "compose/Dockerfile").read_text()
    options = Settings().default
    paths = {options.isolinux_bin, options.ldlinux_c32, *options.efi_loader_by_arch.values()}
    assert paths == {
        f"/{path}" for path in re.findall(r"^ +(usr/lib/\S+)", dockerfile, re.MULTILINE)
    }
    assert "COPY --from=loaders /loaders /\n" in dockerfile


def test_the_image_has_the_programs_that_conductors_start():
    """Without its program a feature is refused, and no container can install one."""
    packages = {
        ipmitool.PROGRAM: "ipmitool",
        conversion.PROGRAM: "qemu-utils",
        "ssh": "openssh-client",
    }
    sources = [path.read_text() for path in (ROOT / "drivers").rglob("*.py")]
    programs = set(re.findall(r'which\("(\w+)"\)', "".join(sources)))
    programs |= set(re.findall(r'^PROGRAM = "(.+)"', "".join(sources), re.MULTILINE))
    assert set(packages) == programs
    dockerfile = (ROOT / "compose/Dockerfile").read_text()
    installed = re.search(r"apt-get install --yes --no-install-recommends (.+) \\", dockerfile)[1]
    assert {*packages.values(), "tini", "busybox", "binutils"} == set(installed.split())
    copied = re.search(r"^RUN sh /image-root.sh /image (.+)$", dockerfile, re.MULTILINE)[1]
    assert {*packages, "tini"} == set(copied.split())


def test_dependencies_and_mounts_of_a_service_exist():
    for name, service in SERVICES.items():
        for needed, about in service.get("depends_on", {}).items():
            assert needed in SERVICES, name
            if about["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[needed], needed
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / "compose" / source).is_file(), volume


def test_each_role_that_stays_has_a_health_check_of_its_own_work():
    for name in OURS:
        check = SERVICES[name].get("healthcheck", {}).get("test", [])
        address = re.findall(r"http://127.0.0.1:(\d+/\w*)'", " ".join(check))
        assert address == {
            "migrate": [], "api": ["6385/"], "files": ["6386/"], "conductor": ["6387/ready"],
            "beat": ["6387/ready"],
        }[name]  # fmt: skip


def test_a_role_writes_only_where_its_container_lets_it():
    """The exporter of a role keeps files in the data directory; the file system is read-only."""
    for name in ("api", "conductor", "beat"):
        service = SERVICES[name]
        folder = service["environment"].get("INGOT_DATA_DIR", "/var/lib/ingot")
        writable = [text.partition(":")[0] for text in service["tmpfs"]]
        writable += [
            text.split(":")[1] for text in service.get("volumes", ()) if not text.endswith(":ro")
        ]
        assert [place for place in writable if Path(folder).is_relative_to(place)], name


def test_two_beats_run_and_logs_and_memory_are_limited():
    assert 2 == SERVICES["beat"]["scale"]
    for name, service in SERVICES.items():
        assert {"max-size", "max-file"} <= set(service["logging"]["options"]), name
        assert service["mem_limit"], name
        assert service["pids_limit"], name


def test_only_the_api_and_files_and_monitoring_are_published():
    published = {name for name, service in SERVICES.items() if "ports" in service}
    assert {"api", "files", "flower", "prometheus", "grafana"} == published


#: Commands for containers that `make compose-test` does not run: Debian has no images of these programs.
NOT_RUN = {
    "docker compose --profile flower up --detach",
    "docker compose --profile metrics up --detach",
}


def test_the_run_of_the_containers_follows_each_section_of_the_page():
    source = (ROOT / "tests/containers/stages.py").read_text()
    assert set(page.sections()) == set(re.findall(r'follow\("(.+?)"', source))


def test_other_pages_have_no_commands_for_containers():
    """Those of docs/containers.md are run; a copy elsewhere would age."""
    commands = set()
    for path in {*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")} - {page.PAGE, ROOT / "CHANGELOG.md"}:
        commands |= set(re.findall(r"(?:docker |podman-)compose -[^`\n]+", path.read_text()))
    assert NOT_RUN == commands


def test_an_upgrade_gives_redis_the_users_of_the_release_before_its_roles_start():
    """A role that uses a new command or key would be refused otherwise."""
    commands = [line.partition("  #")[0].strip() for line in page.sections()["Upgrade"]]
    redis = commands.index("docker compose up --detach --no-deps --force-recreate redis")
    conductor = commands.index("docker compose up --detach --no-deps --force-recreate conductor")
    assert commands.index("./secrets.sh") < redis < conductor


def test_each_service_and_command_of_ours_on_the_page_exists():
    command = typer.main.get_command(cli.app)
    lines = [line.partition("  #")[0] for lines in page.sections().values() for line in lines]
    names = {"api", "beat", "conductor", "files", "postgres", "redis", "migrate"}
    runs = [line.partition(" migrate")[2].split() for line in lines if " run " in line]
    assert len(runs) > 3
    for words in runs:
        subject = command
        for word in words:
            subject = getattr(subject, "commands", {}).get(word, subject)
        assert not words or subject is not command, words
    for line in lines:
        if match := re.search(r"compose (?:up|stop|start|build)\b(.*)$", line):
            services = {word for word in match[1].split() if re.fullmatch("[a-z]+", word)}
            assert services <= names, line
