"""
Options of earlier releases that are none any more, and what holds instead.

A value of one of them, from a file or the environment, is ignored with a warning that says so, so
that a service starts after an upgrade as it did before.
"""

from collections.abc import Mapping

_DELIVERIES = "due deliveries are looked for every 2 seconds"
_RETRIES = "the pause between two attempts grows up to a minute"
_PER_CALLER = "a caller has a quarter of them, at most 16"
_REFUSED = "in a minute, an address has {} of them answered with their reason"

#: "group.name" -> what holds instead.
REMOVED: Mapping[str, str] = {
    "agent.max_poll_interval": "agents are polled at least every 30 seconds",
    "api.backlog": "1024 connections may wait to be accepted",
    "api.event_streams_per_caller": f"of [api]event_streams {_PER_CALLER}",
    "api.idempotency_key_lifetime": "answers are kept for a day",
    "api.polling_threads_per_caller": f"of [api]polling_threads {_PER_CALLER}",
    "api.refused_followers_per_minute": _REFUSED.format(60),
    "api.refused_heartbeats_per_minute": _REFUSED.format(600),
    "api.refused_lookups_per_minute": _REFUSED.format(600),
    "api.refused_reports_per_minute": _REFUSED.format(60),
    "bmc.failure_threshold": "a BMC is not contacted for a while after 3 failures in a row",
    "conductor.advance_rollouts_interval": "rollouts are advanced every second",
    "conductor.ask_threads": "32 threads serve calls from the API",
    "conductor.check_holds_interval": "expired holds are deleted within 5 seconds",
    "conductor.step_backoff": "a step is tried again after 5 seconds, then twice that",
    "console.session_time": "a connection is authorized again every 10 minutes",
    "console.streams_per_caller": f"of [console]streams {_PER_CALLER}",
    "deploy.http_connections_per_address": "an address has at most 64 connections",
    "deploy.http_least_rate": "transfers below 64 KiB a second are cut off",
    "metrics.count_interval": "rows are counted at most every 10 seconds",
    "notifications.delivery_interval": _DELIVERIES,
    "notifications.max_retry_interval": _RETRIES,
    "nova.delivery_interval": _DELIVERIES,
    "nova.max_retry_interval": _RETRIES,
    "pxe.boot_file_sweep_interval": "boot files that no node needs are deleted every 5 minutes",
    "webhooks.delivery_interval": _DELIVERIES,
}
