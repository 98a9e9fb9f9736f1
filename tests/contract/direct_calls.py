"""A conductor that answers in the same process, over the application's own database."""

from app.errors import Unavailable
from tests.support.inside import AlwaysGiven
from workers.conductor.rpc_server import CallHandler
from workers.consoles import calls


class FakeHub:
    """The consoles of a conductor, all connected. session: id of each session; kind: of each."""

    session, kind = "5e55", "serial"

    def __init__(self, runtime):
        self.runtime = runtime

    def facts(self, node):
        return {
            "kind": self.kind, "session": self.session, "state": "connected", "reason": "", "writer": "ann",
            "holder": "1", "port": 10000, "no_port": "",
        }  # fmt: skip

    def address(self, node):
        return {"type": "socat", "url": "tcp://192.0.2.1:10000"}


class DirectCalls:
    """Implement `app.broker.messages.Calls`: a call is answered when it is posted. posted: kinds of calls."""

    def __init__(self, runtime):
        self.consoles = FakeHub(runtime)
        methods = calls.methods(self.consoles)
        self.handler = CallHandler(runtime, "rack-1", AlwaysGiven(), methods)
        self.posted, self.answers, self.broken = [], {}, False

    def post(self, conductor, key, call, seconds):
        if self.broken:
            raise Unavailable
        self.posted.append(call["what"])
        self.answers[key] = self.handler.answer(call, seconds)

    def receive(self, key, seconds):
        return self.answers.pop(key, None)

    def withdraw(self, key):
        return False
