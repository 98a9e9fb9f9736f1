"""RAID by the agent: interface `agent`. Its steps are the agent's own, run in-band."""

from drivers.interfaces import Raid


class AgentRaid(Raid):
    """The agent's steps of the interface `raid` may be used; hooks keep what they built."""

    name = "agent"
