"""
The table of all metrics.

A label has values of a closed set only: no node, user, address or text of a machine.
docs/metrics.md is generated from this table; the dashboard and the alert rules in compose/ are
checked against it.
"""

from collections.abc import Sequence

from app.metrics.kinds import Counter, Gauge, Histogram, Level, Metric

#: Buckets in seconds: of requests and orders to a BMC, of steps and tasks, of whole operations.
_SHORT = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_STEPS = (0.05, 0.25, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_LONG = (1.0, 5.0, 15.0, 60.0, 180.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14400.0)
_KIND = "`active`, `clean`, `power` and so on"

# the API

API_REQUESTS = Histogram(
    "api_request_seconds",
    "Time from a request's arrival to its answer",
    {
        "route": "template of the path; with `?wait` if the client waits for an operation;"
        " `unrouted`: refused before any route",
        "method": "of HTTP, or `other`",
        "status": "`2xx`, `3xx`, `4xx`, `5xx`",
    },
    _SHORT,
)

# operations and their steps

OPERATIONS = Histogram(
    "operation_seconds",
    "Time from the request for an operation to its end",
    {"kind": _KIND, "outcome": "`succeeded`, `failed`, `aborted`"},
    _LONG,
)
OPERATION_FAILURES = Counter(
    "operation_failures",
    "Failed operations",
    {"kind": _KIND, "code": "failure code; `other`: a driver's own"},
)
STEPS = Histogram(
    "step_seconds",
    "Duration of one call of a step; a step that waits is called again",
    {
        "step": "interface and name; `other`: no driver has it",
        "outcome": "`done`, `wait`, `hold`, `failed`",
    },
    _STEPS,
)
CLAIMS = Counter("claims", "Steps that a conductor has claimed")
REFUSALS = Counter(
    "refusals",
    "Steps that a conductor did not run, or whose outcome was not recorded",
    {
        "cause": "`lease`: another conductor has the node's lease; `outdated`: a stale message;"
        " `given_up`: lease, database or broker lost while the step ran; `fence`: late outcome of a"
        " process that had been declared dead"
    },
)
TAKEOVERS = Counter(
    "takeovers",
    "Steps that were taken over",
    {"cause": "`died`: their conductor; `deadline`: the step hung"},
)
RECONCILED = Counter(
    "reconciled",
    "Operations that the reconciler has changed",
    {"action": "`taken_over`, `expired`, `woken`, `called`, `resent`, `admitted`"},
)

# agents

HEARTBEAT_DEFECTS = Counter(
    "heartbeat_defects",
    "Heartbeats for which the fast path failed with a defect; they were recorded by the route",
)
AGENT_REFUSALS = Counter(
    "agent_refusals",
    "Requests of agents that were refused",
    {
        "request": "`heartbeat`, `lookup`, `report`",
        "cause": "`token`, `version`, `tls`, `address`, `certificate`, `node`: there is none that"
        " matches, `state`: it expects no agent, `malformed`",
    },
)

# messages and periodic tasks

MESSAGES = Counter("messages", "Messages to conductors", {"result": "`sent`, `not_sent`"})
BROKER_LOSSES = Counter("broker_losses", "Losses of all messages by the broker")
PERIODIC_RUNS = Histogram(
    "periodic_seconds",
    "Duration of one run of a periodic task; without work, some do not run",
    {"task": "name of the task"},
    _STEPS,
)

# the stream of change events

EVENT_STREAMS = Level("event_streams", "Open streams of change events")
EVENT_STREAM_ENDS = Counter(
    "event_stream_ends",
    "Streams of change events that have ended",
    {
        "cause": "`left`: the reader; `slow`: the reader received too slowly, or nothing; `access`:"
        " the caller lost it; `restored`: the database; `stopped`: the process"
    },
)
EVENT_STREAM_EVENTS = Counter("event_stream_events", "Change events that streams have sent")
EVENT_STREAM_LAG = Histogram(
    "event_stream_lag_seconds",
    "Time from a change to the sending of its event, of the oldest event sent at once; without"
    " events of the past",
    {},
    _SHORT,
)

# webhooks

WEBHOOK_DELIVERIES = Counter(
    "webhook_deliveries",
    "Attempts to post events to the receivers of webhooks",
    {"outcome": "`accepted`, `failed`; `given_up`: failed for too long, the events are failures"},
)
WEBHOOK_LAG = Histogram(
    "webhook_lag_seconds",
    "Time from a change to the acceptance of its event, of the oldest event of each attempt",
    {},
    _LONG,
)

# notifications

NOTIFICATION_DELIVERIES = Counter(
    "notification_deliveries",
    "Attempts to send notifications to RabbitMQ",
    {"outcome": "`accepted`, `failed`"},
)
NOTIFICATION_LAG = Histogram(
    "notification_lag_seconds",
    "Time from a change to the confirmation of its notification, of the oldest of each attempt",
    {},
    _LONG,
)

# power updates

POWER_UPDATE_DELIVERIES = Counter(
    "power_update_deliveries",
    "Attempts to report changes of the power to Nova",
    {"outcome": "`accepted`, `failed`"},
)
POWER_UPDATE_LAG = Histogram(
    "power_update_lag_seconds",
    "Time from a change of the power to Nova's answer, of the oldest of each attempt",
    {},
    _LONG,
)

# BMCs

BMC_COMMANDS = Histogram(
    "bmc_command_seconds",
    "Duration of a command to a BMC",
    {
        "urgency": "`order`; `sync`: of a power sync",
        "result": "`answered`; `error`: answered with one; `unanswered`",
    },
    _SHORT,
)
VAULT_REQUESTS = Histogram(
    "vault_request_seconds",
    "Duration of a request to the vault with the passwords of BMCs",
    {
        "operation": "`login`, `renew`, `read`, `create`, `destroy`",
        "result": "status of HTTP, or `unreachable`",
    },
    _SHORT,
)
BMC_REFUSALS = Counter(
    "bmc_refusals",
    "Commands that were not sent to a BMC",
    {
        "cause": "`breaker`: its circuit breaker is open; `busy`: the turn did not come in time",
    },
)
POWER_SYNCS = Histogram(
    "power_sync_seconds", "Duration of a power sync of a conductor's nodes", {}, _LONG
)
POWER_SYNC_NODES = Counter(
    "power_sync_nodes",
    "Nodes of power syncs",
    {
        "result": "`read`; `differ`: from the recorded power state; `moving`: in transition;"
        " `failed`"
    },
)

# sensors

SENSOR_SWEEPS = Histogram(
    "sensor_sweep_seconds", "Duration of a sensor sweep of a conductor's nodes", {}, _LONG
)
SENSOR_SWEEP_NODES = Counter(
    "sensor_sweep_nodes",
    "Nodes of sensor sweeps",
    {
        "result": "`read`; `none`: the BMC lists no sensors; `failed`; `late`: not read within"
        " `[sensor_data]wait_timeout`"
    },
)

# events of BMCs

EVENT_SUBSCRIPTIONS = Counter(
    "event_subscription_checks",
    "Checks of subscriptions to the events of BMCs",
    {
        "result": "`kept`; `ordered`; `refused`: there is none; `failed`: the BMC did not answer;"
        " `left`: deleted at a BMC"
    },
)
BMC_EVENTS = Counter(
    "bmc_events",
    "Events that BMCs have sent, and requests without any",
    {
        "kind": "`power`, `sensors`: a read follows; `other`; of requests `malformed`; `dropped`:"
        " beyond 60 a minute of a node; `refused`: without a valid secret"
    },
)

# the fleet

BASELINE_NODES = Gauge(
    "baseline_nodes",
    "Nodes that baselines are for",
    {"baseline": "its name", "state": "`complies`, `differs`; `unknown`: a fact is not recorded"},
)
QUOTA_NODE_LIMIT = Gauge(
    "quota_node_limit",
    "Nodes that a project with a quota may lease",
    {"project": "its identifier"},
)
QUOTA_LEASED_NODES = Gauge(
    "quota_leased_nodes",
    "Nodes that a project with a quota leases",
    {"project": "its identifier"},
)
WEBHOOKS_FAILING = Gauge("webhooks_failing", "Enabled webhooks whose last attempt failed", {})
NOTIFICATIONS_WAITING = Gauge(
    "notifications_waiting", "Events whose notifications are not sent yet, at most 10,000", {}
)
ROLLOUTS = Gauge("rollouts", "Rollouts", {"state": "their state"})
ROLLOUT_NODES = Gauge(
    "rollout_nodes",
    "Nodes of the rollouts that have not ended",
    {"state": "`pending`, `running`, `succeeded`, `failed`"},
)
NODES = Gauge("nodes", "Nodes", {"provision_state": "their state"})
NODES_IN_MAINTENANCE = Gauge(
    "nodes_in_maintenance", "Nodes in maintenance", {"fault": "`none`: set by an operator"}
)
ACTIVE_OPERATIONS = Gauge(
    "active_operations",
    "Operations that have not ended; a running one has a lease",
    {
        "kind": _KIND,
        "state": "`queued`, `running`, `held`; `waiting`: for a poll; `agent`: for the agent",
    },
)
OLDEST_OPERATION = Gauge(
    "oldest_operation_seconds",
    "Age of the oldest operation that has not ended",
    {"kind": _KIND, "state": "as of `ingot_active_operations`"},
)
STALLED_OPERATIONS = Gauge("stalled_operations", "Operations without progress beyond their bounds")
ADMISSION_QUEUE = Gauge(
    "admission_queue",
    "Operations that wait for a slot, in all conductor groups",
    {"queue": "name of the limit"},
)
OLDEST_ADMISSION = Gauge(
    "oldest_admission_seconds",
    "Age of the oldest operation that waits for a slot",
    {"queue": "name of the limit"},
)
CONDUCTORS = Gauge(
    "conductors",
    "Conductors",
    {"state": "`alive`: in the ring; `impeded`, `drained`: it lives; `lost`"},
)
CONDUCTOR_QUEUE = Gauge(
    "conductor_queue", "Messages in the queue of a live conductor", {"conductor": "its name"}
)
OLDEST_MESSAGE = Gauge(
    "oldest_message_seconds",
    "Age of the oldest message that the conductor has not claimed",
    {"conductor": "its name"},
)
BEAT_LEADS = Gauge("beat_leads", "1 if a beat leads, else 0")
BEAT_SILENCE = Gauge("beat_silence_seconds", "Time since a leading beat last sent a message")
PASS_AGE = Gauge(
    "periodic_pass_age_seconds",
    "Time since the last completed pass of a periodic task, on the conductor that is behind",
    {"task": "name of the task"},
)
PASS_BOUND = Gauge(
    "periodic_pass_bound_seconds",
    "Time within which a pass of a periodic task should be completed",
    {"task": "name of the task"},
)
REACHED = Gauge(
    "reached",
    "1 if the exporter has reached a part of the service, else 0",
    {"part": "`database`, `broker`"},
)

METRICS: Sequence[Metric] = tuple(item for item in globals().values() if isinstance(item, Metric))
