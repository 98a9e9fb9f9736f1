"""Answers of slow reads, given again for some seconds, so that many readers cost a BMC one read."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

#: Most answers that are kept.
MOST = 256


@dataclass(slots=True)
class RecentAnswers:
    """Newest answers by key; the calls of one node run one after the other."""

    _answers: OrderedDict[Hashable, tuple[float, object]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, key: Hashable, seconds: float, read_answer: Callable[[], object]) -> object:
        """Return the answer of `read()`, or one that is at most `seconds` old."""
        with self._lock:
            answer_entry = self._answers.get(key)
        if answer_entry is not None and time.monotonic() - answer_entry[0] < seconds:
            return answer_entry[1]
        answer = read_answer()
        with self._lock:
            self._answers[key] = (time.monotonic(), answer)
            self._answers.move_to_end(key)
            if len(self._answers) > MOST:
                self._answers.popitem(last=False)
        return answer
