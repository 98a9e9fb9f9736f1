"""A conductor that answers in the same process, over the application's own database."""

from app.errors import Unavailable
from tests.support.inside import AlwaysGiven
from workers.conductor.rpc_server import CallHandler


class Asked:
    """Implement `app.runtime.Calls`: a call is answered when it is posted. asked: kinds of calls."""

    def __init__(self, runtime):
        self.answerer = CallHandler(runtime, "rack-1", AlwaysGiven())
        self.asked, self.answers, self.broken = [], {}, False

    def post(self, conductor, key, question, seconds):
        if self.broken:
            raise Unavailable
        self.asked.append(question["what"])
        self.answers[key] = self.answerer.answer(question, seconds)

    def receive(self, key, seconds):
        return self.answers.pop(key, None)

    def withdraw(self, key):
        return False
