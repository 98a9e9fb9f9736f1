"""The Helm chart, rendered by Helm and validated against the schemas of Kubernetes."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer.main
import yaml

from app.config.settings import load
from tests.support import charts
from tests.support.prerequisites import not_run
from workers import cli

ROOT = Path(__file__).parents[2]
CHART = ROOT / "compose" / "kubernetes" / "ingot"
#: Values that switch each part of the chart on or off.
VARIANTS = {
    "default": {},
    "everything": {
        "conductor": {
            "hostNetwork": True, "nodeSelector": {"rack": "a"},
            "tolerations": [{"key": "bare-metal", "operator": "Exists"}],
            "storage": {"className": "fast"},
        },
        "metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
        "api": {
            "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls", "annotations": {"a": "b"}},
            "service": {"annotations": {"a": "b"}},
        },
        "image": {"digest": "sha256:" + "a" * 64, "pullSecrets": ["registry"]},
        "networkPolicy": {"clients": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
        "admin": {"replicas": 1},
    },
    "least": {
        "api": {"autoscaling": {"enabled": False}}, "networkPolicy": {"enabled": False},
        "settings": {"api.max_limit": 500},
    },
}  # fmt: skip
ROLES = ("api", "conductor", "beat", "files")


@pytest.fixture(scope="module")
def tools():
    return charts.tools() or not_run("Helm and the schemas of Kubernetes: pip cannot fetch them")


@pytest.fixture(scope="module")
def render(tools, tmp_path_factory):
    """Return a function that renders a variant: its resources."""
    rendered = {}

    def resources(variant):
        if variant not in rendered:
            values = tmp_path_factory.mktemp("values") / "values.yaml"
            values.write_text(yaml.safe_dump(VARIANTS[variant]))
            for words in (("lint", "--strict", CHART), ("template", "site", CHART)):
                process = subprocess.run(
                    [tools / "helm", *words, "--values", values], check=False, timeout=60,
                    capture_output=True, text=True,
                )  # fmt: skip
                assert 0 == process.returncode, process.stdout + process.stderr
            rendered[variant] = [item for item in yaml.safe_load_all(process.stdout) if item]
        return rendered[variant]

    return resources


@pytest.fixture
def resource(render):
    def find(kind, name, variant="default"):
        (document,) = (
            item
            for item in render(variant)
            if (item["kind"], item["metadata"]["name"]) == (kind, f"site-{name}")
        )
        return document

    return find


def containers(resources):
    """Name -> container, of all pods."""
    templates = [
        item["spec"]["template"]["spec"] for item in resources if "template" in item["spec"]
    ]
    return {
        container["name"]: container
        for template in templates
        for container in template["containers"]
    }


def variables(container):
    return {item["name"]: item.get("value", "10.0.0.1") for item in container.get("env", ())}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_chart_has_valid_resources(tools, render, variant):
    assert "" == charts.validate(tools, render(variant))


def test_an_unknown_field_is_noticed(tools, render):
    job = next(item for item in render("default") if item["kind"] == "Job")
    wrong = job | {"spec": job["spec"] | {"backofLimit": 3}}
    assert "backofLimit" in charts.validate(tools, [wrong])


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_container_runs_a_command_of_ours_with_valid_settings(render, variant, tmp_path):
    (tmp_path / "secret").write_text("redis://:pw@redis")
    all_containers = containers(render(variant))
    assert {*ROLES, "migration", "admin"} == set(all_containers)
    for name, container in all_containers.items():
        environ = {
            variable: str(tmp_path / "secret") if value.startswith("/run/secrets") else value
            for variable, value in variables(container).items()
        }
        if "INGOT_DATABASE_CONNECTION_FILE" in environ:
            environ["INGOT_DATABASE_CONNECTION_FILE"] = str(tmp_path / "database")
            (tmp_path / "database").write_text("postgresql://ingot@db/ingot")
        assert () == load(environ).warnings, name
        command = typer.main.get_command(cli.app)
        for word in container.get("args", ()):
            if not word.startswith("-"):
                command = command.commands[word]
            else:
                assert word in {option for parameter in command.params for option in parameter.opts}


def test_each_role_has_its_own_credentials_and_no_others(render):
    """The keys are files that compose/secrets.sh makes."""
    script = (ROOT / "compose/secrets.sh").read_text()
    keys = {}
    for item in render("default"):
        for volume in item["spec"].get("template", {}).get("spec", {}).get("volumes", ()):
            if "secret" in volume:
                keys[item["metadata"]["name"]] = {
                    entry["key"] for entry in volume["secret"]["items"]
                }
    for role in ("api", "conductor", "beat"):
        assert {"master_key", f"database_url_{role}", f"redis_url_{role}"} == keys[f"site-{role}"]
    assert {"master_key", "database_url"} == keys["site-migration"] == keys["site-admin"]
    for key in set().union(*keys.values()):
        assert re.sub("_(api|conductor|beat)$", "_$role", key) in script
    files = containers(render("default"))["files"]
    assert {"state", "tmp"} == {mount["name"] for mount in files["volumeMounts"]}


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_pod_has_more_rights_than_it_needs(render, variant):
    for item in render(variant):
        pod = item["spec"].get("template", {}).get("spec")
        if not pod:
            continue
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        dockerfile = (ROOT / "compose/Dockerfile").read_text()
        assert f"--uid {pod['securityContext']['runAsUser']} " in dockerfile
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"]
            assert not context["allowPrivilegeEscalation"]
            assert {"drop": ["ALL"]} == context["capabilities"]


def test_a_conductor_has_the_time_to_drain(resource):
    pod = resource("StatefulSet", "conductor")["spec"]["template"]["spec"]
    environ = variables(pod["containers"][0])
    drain = int(environ["INGOT_CONDUCTOR_GRACEFUL_SHUTDOWN_TIMEOUT"])
    assert pod["terminationGracePeriodSeconds"] >= drain + 10
    budget = resource("PodDisruptionBudget", "conductor")["spec"]
    assert 1 == budget["maxUnavailable"]
    assert resource("StatefulSet", "conductor")["spec"]["selector"] == budget["selector"]


def test_probes_ask_for_work_and_not_for_other_services(render):
    """A readiness that fails with the database would take all pods of the API out of service."""
    for name, container in containers(render("default")).items():
        if name not in ROLES:
            continue
        ports = {port["name"] for port in container["ports"]}
        probes = {
            kind: container.get(kind, {}).get("httpGet")
            for kind in ("startupProbe", "livenessProbe", "readinessProbe")
        }
        assert {probe["port"] for probe in probes.values() if probe} <= ports
        assert "/healthcheck" not in str(probes)
        if name == "files":
            assert {"/"} == {probe["path"] for probe in probes.values() if probe}
        else:
            assert ("/ready", "/alive") == (
                probes["startupProbe"]["path"],
                probes["livenessProbe"]["path"],
            )


def test_conductors_on_the_hosts_network_have_a_host_each(resource):
    pod = resource("StatefulSet", "conductor", "everything")["spec"]["template"]["spec"]
    assert pod["hostNetwork"]
    (term,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert "kubernetes.io/hostname" == term["topologyKey"]


def test_the_autoscaler_alone_sets_the_number_of_apis(resource, render):
    assert "replicas" not in resource("Deployment", "api")["spec"]
    assert 2 == resource("HorizontalPodAutoscaler", "api")["spec"]["minReplicas"]
    assert 2 == resource("Deployment", "api", "least")["spec"]["replicas"]
    assert "HorizontalPodAutoscaler" not in {item["kind"] for item in render("least")}


def test_a_policy_lets_in_whom_a_role_serves(resource, render):
    api = resource("NetworkPolicy", "api")["spec"]
    assert ["api", "metrics"] == [rule["ports"][0]["port"] for rule in api["ingress"]]
    assert "from" not in api["ingress"][0], "machines are outside of the cluster"
    ports = {port["port"] for rule in api["egress"] for port in rule["ports"]}
    assert {53, 5432, 6379} == ports
    assert ["Ingress"] == resource("NetworkPolicy", "conductor")["spec"]["policyTypes"]
    assert 1 == len(resource("NetworkPolicy", "beat")["spec"]["ingress"])
    assert "from" in resource("NetworkPolicy", "api", "everything")["spec"]["ingress"][0]
    assert "NetworkPolicy" not in {item["kind"] for item in render("least")}


def test_the_migration_runs_before_the_roles_as_the_owner(resource):
    job = resource("Job", "migration")
    assert "pre-install,pre-upgrade" == job["metadata"]["annotations"]["helm.sh/hook"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert ["db", "upgrade", "--grants"] == container["args"]


def test_the_version_is_that_of_the_project():
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[
        1
    ]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert version == chart["version"] == chart["appVersion"]
    assert f"image: ingot:{version}\n" in (ROOT / "compose/compose.yaml").read_text()


def test_the_first_user_is_made_by_commands_that_exist(tools, tmp_path):
    """Helm prints the notes of a chart at its installation, which needs a cluster."""
    chart = tmp_path / "ingot"
    shutil.copytree(CHART, chart)
    notes = (chart / "templates/NOTES.txt").read_text()
    (chart / "templates/notes.yaml").write_text(
        "notes: |\n" + re.sub("^", "  ", notes, flags=re.MULTILINE)
    )
    output = subprocess.run(
        [tools / "helm", "template", "site", chart, "--show-only", "templates/notes.yaml"],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip
    commands = re.findall(r"-- ingot (.*)$", output, re.MULTILINE)
    assert ["user create ann", "role grant admin --user ann --system"] == commands
    assert "deployment/site-admin" in output


#: A command that changes a cluster -> the one that does all but that, without a cluster.
DRY = {
    r"^helm upgrade --install (.*)$": r"helm install --dry-run=client \1",
    r"^(kubectl .*)$": r"\1 --dry-run=client --output yaml",
}


def test_helm_and_kubectl_accept_the_commands_of_the_page(tools, tmp_path):
    """The commands of docs/install.md; a secret has each file that the chart mounts."""
    (block,) = re.findall(
        r"```sh\n(compose/secrets.sh .*?)```", (ROOT / "docs/install.md").read_text(), re.DOTALL
    )
    lines = [re.sub(r"\s+#.*", "", line) for line in block.splitlines()]
    for command, dry in DRY.items():
        lines = [re.sub(command, dry, line) for line in lines]
    assert 3 == sum("--dry-run=client" in line for line in lines)
    shutil.copytree(
        ROOT / "compose", tmp_path / "compose", ignore=shutil.ignore_patterns("secrets", ".env")
    )
    (tmp_path / "my-values.yaml").write_text(yaml.safe_dump(VARIANTS["everything"]))
    process = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", "\n".join(lines)], cwd=tmp_path, check=False, timeout=60,
        capture_output=True, text=True,
        env={"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path)},
    )  # fmt: skip
    assert 0 == process.returncode, process.stderr
    (secret,) = re.findall(
        r"^apiVersion: v1\ndata:\n(.*?)^kind: Secret", process.stdout, re.DOTALL | re.MULTILINE
    )
    mounted = set(re.findall(r"\{key: (\w+), path: ", process.stdout))
    assert mounted
    assert mounted <= set(re.findall(r"^  (\w+): ", secret, re.MULTILINE))
