"""The service in one process: a conductor that runs on request, and a test hardware type."""

import uuid

from app.agents import heartbeats
from app.engine import operations, provisioning, wake
from app.identity.caller import Caller
from app.models import AgentRecord, Node, Operation, OperationState, Port
from drivers.agent.bootc import Bootc
from drivers.agent.deploy import Direct
from drivers.builtin import HARDWARE_TYPES, FakeHardware
from drivers.core.driver import HardwareType
from drivers.core.errors import Unreachable
from drivers.core.interface import Frame
from drivers.core.registry import load
from drivers.core.steps import Arg, Done, Failed, Retry, Wait, step
from drivers.fake.hardware import FakeBoot, FakeDeploy, FakeManagement, FakePower
from tests.unit.drivers.machines import TOKEN
from workers.conductor import attempts


class AcmeManagement(FakeManagement):
    """Steps of all kinds; `Acme.did` lists the steps that ran."""

    name = "acme"

    @step(clean=0, service=0, deploy=0, needs_ramdisk=False,
          args=(Arg("level", "how deep", required=True), Arg("note", "anything")))  # fmt: skip
    def scrub(self, target, level, note=None):
        if level == "wrong":
            return Failed("level 'wrong' is none", "bad_argument")
        return Acme.does(target, f"scrub {level}")

    @step(clean=0, service=0, needs_ramdisk=False)
    def polish(self, target):
        return Acme.does(target, "polish")

    @step(clean=0, service=0, deploy=0, needs_ramdisk=False, abortable=False)
    def crawl(self, target):
        """Wait for the machine; cannot be aborted."""
        return Acme.does(target, "crawl") if target.progress else Wait({"begun": 1}, poll_after=60)

    @step(clean=0, service=0, deploy=0, needs_ramdisk=False, abortable=True, timeout=7)
    def stroll(self, target):
        """Wait for the machine; can be aborted."""
        return Done() if target.progress else Wait({"begun": 1}, poll_after=60)

    @step(clean=0, needs_ramdisk=False, retry=Retry(attempts=3, backoff=2))
    def flicker(self, target):
        """Fail with a transient error `Acme.unreachable` times."""
        Acme.does(target, "flicker")
        if Acme.unreachable:
            Acme.unreachable -= 1
            raise Unreachable("no answer")

    @step(clean=0, service=0)
    def ask_agent(self, target):
        """Wait for the agent."""
        return Wait()

    @step(deploy=150)
    def prepare_fans(self, target):
        return Acme.does(target, "prepare_fans")


class AcmePower(FakePower):
    name = "acme"

    def order(self, target, state):
        Acme.does(target, state)
        super().order(target, state)


class AcmeBoot(FakeBoot):
    name = "acme"

    def prepare_ramdisk(self, target):
        return Acme.does(target, "prepare_ramdisk")

    def clean_up_ramdisk(self, target):
        if Acme.untidy:
            raise Unreachable("cannot be tidied up")
        return Acme.does(target, "clean_up_ramdisk")

    def prepare_instance(self, target):
        return Acme.does(target, "prepare_instance")


class AcmeMegaDeploy(FakeDeploy):
    """Deploy interface with a single step for the whole deployment."""

    name = "acme-mega"
    frames = {**FakeDeploy.frames, "deploy": Frame(collect=("deploy", "deploy"))}
    is_written = False

    def has_decomposed_deploy_steps(self):
        return False

    @step(deploy=100)
    def deploy(self, target):
        Acme.does(target, "boot the agent")
        return Wait()

    @step(deploy=80)
    def write_image(self, target):
        Acme.does(target, "not to be run")

    def continue_deploy(self, target):
        Acme.does(target, "write")

    def deploy_is_done(self, target):
        return AcmeMegaDeploy.is_written

    def reboot_to_instance(self, target):
        Acme.does(target, "reboot to instance")


class Acme(HardwareType):
    name = "acme"
    interfaces = {
        **FakeHardware.interfaces,
        "management": (AcmeManagement,),
        "power": (AcmePower,),
        "boot": (AcmeBoot,),
        "deploy": (FakeDeploy, AcmeMegaDeploy, Direct, Bootc),
    }
    did: list = []
    unreachable = 0
    untidy = False

    @classmethod
    def does(cls, target, action):
        cls.did.append((target.name, action) if target.name else action)
        return Done()


class Harness:
    """Nodes of the hardware type `acme`, one conductor, and a scripted agent."""

    def __init__(self, inside, agent=None):
        self.inside, self.agent = inside, agent
        inside.runtime.drivers = load([*HARDWARE_TYPES, Acme])
        self.conductor = inside.conductor("c-1")
        Acme.did, Acme.unreachable, Acme.untidy = [], 0, False
        AcmeMegaDeploy.is_written = False

    def node(self, state="manageable", **columns):
        """Create a node, and return its id."""
        with self.inside.runtime.transaction() as session:
            columns = {"driver": "acme", **columns}
            node = Node(uuid=str(uuid.uuid4()), provision_state=state, **columns)
            session.add(node)
            session.flush()
            session.add(Port(uuid=str(uuid.uuid4()), node_id=node.id, address=f"52:54:{node.id}"))
            return node.id

    def with_agent(self, state="manageable", deploy_interface="direct", **columns):
        """Create a node whose deploy interface uses the agent, and return its id."""
        return self.node(state, deploy_interface=deploy_interface, **columns)

    def ask(self, node_id, verb, **arguments):
        """Request a verb, as the API does."""
        with self.inside.runtime.transaction() as session:
            node = operations.lock(session, node_id)
            provisioning.request(session, node, verb, arguments, Caller())

    def run(self):
        """Run all messages to the conductor."""
        messages = self.inside.messages
        while messages:
            attempts.run(self.conductor, messages.pop(0))

    def do(self, node_id, verb, **arguments):
        """Request a verb, and run the conductor until the operation waits or ends."""
        self.ask(node_id, verb, **arguments)
        self.run()
        return self.state(node_id)

    def poll(self, node_id):
        """Resume the waiting operation, as if its poll were due."""
        with self.inside.runtime.transaction() as session:
            node = operations.lock(session, node_id)
            operation = session.query(Operation).filter_by(
                node_id=node_id, state=OperationState.WAITING
            ).one()  # fmt: skip
            assert operation.wake_at is not None, "it waits for its agent"
            assert wake.resume_operation(session, node, operation)
        self.run()
        return self.state(node_id)

    def call(self, node_id):
        """Send a heartbeat of the agent."""
        with self.inside.runtime.transaction() as session:
            if session.get(AgentRecord, node_id) is None:
                session.add(AgentRecord(node_id=node_id))
            session.flush()
            session.get_one(AgentRecord, node_id).token = TOKEN
        fields = {"callback_url": self.agent.url, "agent_token": TOKEN, "agent_version": "13.0.0"}
        heartbeats.heartbeat(self.inside.runtime, self.inside.read(node_id).uuid, fields)
        self.run()
        return self.state(node_id)

    def finish(self, node_id, flow="clean", result=None):
        """Finish the agent's step, and send a heartbeat."""
        self.agent.finish_step(flow, result)
        return self.call(node_id)

    def offer(self, flow, *steps, version="1"):
        """Set the steps of the agent: (interface, step, priority, more)"""
        listed = [
            {"interface": interface, "step": name, "priority": priority, **dict(*details)}
            for interface, name, priority, *details in steps
        ]
        self.agent.answers[f"{flow}.get_{flow}_steps"] = {
            f"{flow}_steps": {"manager": listed},
            "hardware_manager_version": {"manager": version},
        }

    def state(self, node_id):
        return self.inside.read(node_id).provision_state

    def last(self, node_id):
        """Return the newest operation of a node."""
        with self.inside.runtime.reading() as session:
            return operations.of_node(session, node_id)[0]

    def steps(self, node_id):
        return self.inside.steps(self.last(node_id).uuid)

    def labels(self, node_id):
        return [(row.label, row.state) for row in self.steps(node_id)]

    def ran(self):
        """Names of the steps that were sent to the agent."""
        return [
            params["step"]["step"]
            for name, params in self.agent.received
            if name.partition(".")[2].startswith("execute_")
        ]


def requested(interface, name, **fields):
    """Return a step in the form of a request."""
    return {"interface": interface, "step": name, **fields}
