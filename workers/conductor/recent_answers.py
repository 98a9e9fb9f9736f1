"""Answers of slow reads, given again for some seconds, so that many readers cost a BMC one read."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

#: Most answers that are kept.
MOST = 256


@dataclass(slots=True)
class RecentAnswers:
    """Newest answers by key; the calls of one node run one after the other."""

    _kept: OrderedDict[Hashable, tuple[float, Any]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, key: Hashable, seconds: float, read: Callable[[], Any]) -> Any:
        """Return the answer of `read()`, or one that is at most `seconds` old."""
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and time.monotonic() - kept[0] < seconds:
            return kept[1]
        answer = read()
        with self._lock:
            self._kept[key] = (time.monotonic(), answer)
            self._kept.move_to_end(key)
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return answer
