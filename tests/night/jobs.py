"""The jobs of the night: the commands of an operator, and the check of their claims."""

import json
import re
import resource
import time
from collections import Counter

import requests

from tests.bench import cpu
from tests.night import spreadsheet
from tests.night.shell import Shell, require

#: Numbers of the machines that were delivered with half of their memory.
SHORT = (6, 8)
ACCEPTANCE = [
    {"field": "cpu.count", "operator": "=", "value": 8},
    {"field": "memory_mb", "operator": ">=", "value": 32768},
    {"field": "disks.from_gb.900", "operator": ">=", "value": 4},
    {"field": "nics.count", "operator": "=", "value": 2},
]
VERSION = "2.20"
FIRMWARE = [{"field": "firmware.bmc", "operator": ">=", "value": VERSION}]
COUNTS = re.compile(r"(\d+) (created|changed|unchanged|failed|to create|to change|refused)")


class Night:
    """One night. wave: most machines in progress, a number or a share."""

    def __init__(self, stage, folder, wave):
        self.stage, self.folder, self.wave = stage, folder, wave
        self.names = [machine["name"] for machine in stage.machines]
        self.shell = Shell(
            folder, INGOT_URL=stage.url, INGOT_DATA_DIR=str(stage.data), HOME=str(folder)
        )
        self.rows = []  # job, commands, seconds, CPU seconds of service, simulator and commands

    def run(self):
        """Do all jobs. Raises Differs."""
        jobs = (
            self.enrol, self.verify, self.accept, self.update, self.clean, self.deploy,
            self.give_back, self.prove,
        )  # fmt: skip
        for job in jobs:
            print(f"## {job.__doc__}\n", flush=True)
            cpu_times, commands, start = self._cpu(), self.shell.commands, time.monotonic()
            job()
            self.stage.check()
            spent = [later - earlier for earlier, later in zip(cpu_times, self._cpu(), strict=True)]
            seconds = time.monotonic() - start
            self.rows.append((job.__name__, self.shell.commands - commands, seconds, *spent))

    def summary(self):
        """Return the jobs as a table of Markdown."""
        lines = [
            f"| {len(self.names)} machines | commands | seconds | CPU s: service | machines | commands |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
        ]
        total = ["all", *(sum(column) for column in list(zip(*self.rows, strict=True))[1:])]
        for name, *numbers in [*self.rows, total]:
            cells = " | ".join(f"{number:.0f}" for number in numbers)
            lines.append(f"| {name.replace('_', ' ')} | {cells} |")
        return "\n".join(lines)

    def enrol(self):
        """The spreadsheet becomes nodes: a dry run, the import, its correction, a run without a change."""
        path, count = self.folder / "rack.csv", len(self.names)
        right = spreadsheet.rows(self.stage.machines)
        wrong, errors = spreadsheet.spoiled(right)
        spreadsheet.written(path, wrong)
        words = ["node", "import", "rack.csv"]
        for column, field in spreadsheet.FIELDS.items():
            words += ["--map", f"{column}={field}"]
        for field, value in (
            ("driver", "redfish"), ("resource_class", "compute"),
            ("driver_info.deploy_iso", self.stage.medium),
        ):  # fmt: skip
            words += ["--set", f"{field}={value}"]
        planned = self.shell(*words, "--dry-run", status=1)
        self._name_errors(planned, errors)
        require(_counts(planned) == {"to create": count - 3, "refused": 3}, "the dry run's counts")
        require(self.shell.read("node", "list") == [], "a dry run creates nothing")
        imported = self.shell(*words, status=1)
        self._name_errors(imported, errors)
        require(_counts(imported) == {"created": count - 3, "failed": 3}, "the import's counts")
        spreadsheet.written(path, right)
        corrected = _counts(self.shell(*words))
        require(corrected == {"created": 3, "unchanged": count - 3}, f"corrected: {corrected}")
        again = _counts(self.shell(*words))
        require(again == {"unchanged": count}, f"a run without a change: {again}")
        self._in_state("enroll")

    def verify(self):
        """The BMCs answer with the credentials of the spreadsheet."""
        self._roll_out("manage", "provision_state=enroll")
        self._in_state("manageable")

    def accept(self):
        """The machines are compared with an expected one; two of them were delivered with less memory."""
        for number in SHORT:
            self._set_fault(number, {"property": "TotalSystemMemoryGiB", "value": "16"})
        self._baseline("expected", ACCEPTANCE, "--acceptance")
        self._roll_out("inspect", "provision_state=manageable")
        short = {self.names[number] for number in SHORT}
        self._differ("expected", short, "memory_mb 16384 (expected >= 32768)")
        held_nodes = self.shell.read("node", "list", "--hold", "scheduling", "-c", "name")
        require({node["name"] for node in held_nodes} == short, f"held: {held_nodes}")
        for number in SHORT:
            self._set_fault(number, None)  # the memory is there now
        self._roll_out("inspect", "differs=expected")
        self._differ("expected", set())
        require(self.shell.read("hold", "list") == [], "no hold is left")

    def update(self):
        """The firmware of all BMCs is brought to a baseline, two machines first."""
        self._baseline("firmware", FIRMWARE)
        self._await_comparison("firmware")
        self._differ("firmware", set(self.names))
        setting = {
            "component": "bmc",
            "url": f"http://files.example/{VERSION}.bin",
            "version": VERSION,
        }
        step = {"interface": "firmware", "step": "update", "args": {"settings": [setting]}}
        (self.folder / "steps.json").write_text(json.dumps([step]))
        self.shell(
            "baseline", "remedy", "firmware", "--steps", "steps.json", "--canary", "2",
            "--max-unavailable", self.wave, "--yes", "--wait",
        )  # fmt: skip
        self._differ("firmware", set())
        versions = Counter(machine["firmware"]["BMC"] for machine in self._machines())
        require(versions == {VERSION: len(self.names)}, f"versions of the machines: {versions}")

    def clean(self):
        """All machines are cleaned, and available."""
        self._roll_out("provide", "provision_state=manageable")
        self._in_state("available")

    def deploy(self):
        """All machines get a system."""
        image = self.stage.image
        self.shell(
            "node", "set", "--where", "provision_state=available", "--yes",
            "--instance-info", f"image_source={image.url}", "--instance-info", "image_os_hash_algo=sha256",
            "--instance-info", f"image_os_hash_value={image.sha256}", "--instance-info", "image_disk_format=raw",
        )  # fmt: skip
        self._roll_out("active", "provision_state=available")
        self._in_state("active")
        self._on_disks(image.sha256)

    def give_back(self):
        """All machines are returned: torn down, erased, available again."""
        self._roll_out("deleted", "provision_state=active")
        self._in_state("available")
        self._on_disks(None)

    def prove(self):
        """Each machine has a proof of its sanitation, verified without the service."""
        count = len(self.names)
        self.shell(
            "sanitation", "export", "--where", "resource_class=compute", "--folder", "proofs"
        )
        (self.folder / "ingot.pem").write_text(self.shell("sanitation", "key"))
        verified = self.shell("sanitation", "verify", "proofs/*.json", "--key", "ingot.pem")
        require(f"{count} of {count} reports are genuine: {count} sanitized" in verified, "proofs")
        for number, name in enumerate(self.names):
            report = json.loads((self.folder / "proofs" / f"{name}.json").read_text())["report"]
            require(report["node"]["name"] == name, f"the proof of {name} is of another node")
            require(report["operation"]["kind"] == "deleted", f"{name}: not of its return")
            serials = [disk["serial"] for disk in report["disks"]]
            require(
                serials == [f"SIM-{number:04d}-{disk}" for disk in range(4)],
                f"{name}: erased disks {serials}",
            )

    def _roll_out(self, verb, where):
        self.shell(
            "fleet",
            "run",
            verb,
            "--where",
            where,
            "--max-unavailable",
            self.wave,
            "--yes",
            "--wait",
        )

    def _baseline(self, name, rules, *options):
        file = f"{name}.json"
        (self.folder / file).write_text(json.dumps(rules))
        self.shell(
            "baseline", "create", "--name", name, "--selection", "resource_class=compute",
            "--expected", file, *options,
        )  # fmt: skip

    def _await_comparison(self, baseline):
        """Wait for the first pass over the nodes of a new baseline."""
        end = time.monotonic() + 300
        while len(self.shell.read("baseline", "nodes", baseline)) < len(self.names):
            require(time.monotonic() < end, f"baseline {baseline} is compared with all nodes")
            time.sleep(1)

    def _differ(self, baseline, names, difference=""):
        """Compare the list of the nodes that differ from a baseline."""
        table = self.shell("baseline", "nodes", baseline, "--state", "differs")
        require(table.count(difference) >= len(names) if difference else True, table[-2000:])
        differing_nodes = self.shell.read("baseline", "nodes", baseline, "--state", "differs")
        differing_names = {item["node_name"] for item in differing_nodes}
        require(differing_names == names, f"{len(differing_names)} nodes differ from {baseline}")
        complying_nodes = self.shell.read("baseline", "nodes", baseline, "--state", "complies")
        count = len(complying_nodes)
        require(count == len(self.names) - len(names), f"{count} nodes comply")

    def _in_state(self, state):
        """Compare the states of all nodes: none is held, in maintenance, or has an error."""
        fields = "name,provision_state,maintenance,last_error,reservation"
        nodes = self.shell.read("node", "list", "-c", fields)
        names = sorted(node["name"] for node in nodes)
        require(names == sorted(self.names), f"there are {len(names)} nodes")
        odd = [node for node in nodes if node["provision_state"] != state or node["maintenance"]
               or node["last_error"] or node["reservation"]]  # fmt: skip
        require(not odd, f"{len(odd)} nodes are not {state}: {odd[:3]}")

    def _on_disks(self, sha256):
        """Compare the disks of the simulated machines."""
        disks = Counter(
            machine["disk"] and machine["disk"]["sha256"] for machine in self._machines()
        )
        require(disks == {sha256: len(self.names)}, f"on the disks: {disks}")

    def _machines(self):
        return requests.get(f"{self.stage.control}/sim/machines", timeout=60).json()

    def _set_fault(self, number, options):
        address = f"{self.stage.control}/sim/machines/{number}/faults"
        requests.post(address, json={"property_odd": options}, timeout=60).raise_for_status()

    def _cpu(self):
        simulator, service = (cpu.of_trees([child.process.pid]) for child in self.stage.children)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return service, simulator, used.ru_utime + used.ru_stime

    @staticmethod
    def _name_errors(output, errors):
        for line, column, cell in errors:
            messages = [text for text in output.splitlines() if line in text and cell in text]
            require(messages, f"{line}, column {column}: {cell!r} is not named")


def _counts(output):
    """Return the numbers of the last line with any, without those that are 0."""
    summaries = [line for line in output.splitlines() if COUNTS.match(line)]
    return {word: int(number) for number, word in COUNTS.findall(summaries[-1]) if number != "0"}
