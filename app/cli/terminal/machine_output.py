"""
Output of a machine on the terminal of an operator.

A terminal obeys control sequences, and a machine is not to be trusted: a sequence may write to the
clipboard, set a title, or ask a question whose answer the terminal types as if its user did.
"""

import re

#: Bytes after which a control sequence that has no end yet is dropped.
LONGEST = 256
#: Strings to the terminal (OSC, DCS, SOS, PM, APC) with their content, up to their end; in both
#: encodings of their beginning.
_BEGIN = rb"(?:\x1b[\]PX^_]|\xc2[\x90\x98\x9d\x9e\x9f])[^\x07\x18\x1a\x1b\x9c]*"
_STRING = _BEGIN + rb"(?:\x07|\x18|\x1a|\x1b\\|\x9c|(?=\x1b[^\\]))"
#: Questions: device attributes, status and position, window, terminal parameters, modes, version,
#: keyboard; and what sets the answer-back message.
_QUESTION = rb"(?:\x1b\[|\xc2\x9b)[0-9;:<=>?!\"'$ ]*(?:[cntxuq]|\$p)"
_DROPPED = re.compile(rb"%b|%b|\x05|\x1bZ" % (_STRING, _QUESTION))
#: A beginning of one of them at the end of the output so far.
_UNENDED = re.compile(
    rb"%b\x1b?\Z|(?:\x1b\[|\xc2\x9b)[0-9;:<=>?!\"'$ ]*\Z|(?:\x1b|\xc2)\Z" % _BEGIN
)


class TerminalFilter:
    """Drops sequences that a machine must not send; keeps text, colours and cursor movements."""

    def __init__(self) -> None:
        self._unended_part = b""

    def feed(self, data: bytes) -> bytes:
        """Return the part of the output that can be shown now."""
        data = _DROPPED.sub(b"", self._unended_part + data)
        unended = _UNENDED.search(data)
        end = unended.start() if unended else len(data)
        self._unended_part = data[end:]
        if len(self._unended_part) > LONGEST:
            self._unended_part = self._unended_part[
                :2
            ]  # its beginning, so that its end is still dropped
        return data[:end]


def plain(data: bytes) -> str:
    """Return output as text, without any control characters but the ends of lines and tabs."""
    text = re.sub(rb"%b|(?:\x1b\[|\xc2\x9b)[ -?]*[@-~]|\x1b[ -/]*[0-~]" % _STRING, b"", data)
    lines = text.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return "".join(mark for mark in lines if mark.isprintable() or mark in "\n\t")
