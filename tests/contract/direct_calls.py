"""A conductor that answers in the same process, over the application's own database."""

from app.errors import Unavailable
from tests.support.inside import AlwaysGiven
from workers.conductor.rpc_server import CallHandler


class DirectCalls:
    """Implement `app.broker.messages.Calls`: a call is answered when it is posted. posted: kinds of calls."""

    def __init__(self, runtime):
        self.handler = CallHandler(runtime, "rack-1", AlwaysGiven())
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
