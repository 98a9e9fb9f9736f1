"""
The audit: triggers in the database record the process of each state change of an operation.

Every process names itself and its life in `application_name`, so the audit does not depend on the
service's own records. `written_by_others` finds records by processes that did not hold the step.
"""

LAY = """
CREATE TABLE chaos_moves (
    id bigserial PRIMARY KEY, tx bigint, at timestamptz DEFAULT clock_timestamp(), who text,
    operation int, old_state text, new_state text, old_fence int, new_fence int,
    old_cursor int, new_cursor int, old_claim text, new_claim text, aborted boolean
);
CREATE TABLE chaos_deaths (tx bigint, operation int);
CREATE FUNCTION chaos_note_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos_moves (tx, who, operation, old_state, new_state, old_fence, new_fence,
        old_cursor, new_cursor, old_claim, new_claim, aborted)
    VALUES (txid_current(), current_setting('application_name'), NEW.id, OLD.state, NEW.state,
        OLD.fence, NEW.fence, OLD.cursor, NEW.cursor, OLD.claim, NEW.claim,
        NEW.aborting AND NOT OLD.aborting AND NEW.fence > OLD.fence);
    RETURN NULL;
END $$;
CREATE FUNCTION chaos_note_death() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO chaos_deaths VALUES (txid_current(), NEW.operation_id);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_moves AFTER UPDATE ON operations FOR EACH ROW
    WHEN (OLD.state <> NEW.state OR OLD.fence <> NEW.fence OR OLD.cursor <> NEW.cursor)
    EXECUTE FUNCTION chaos_note_move();
CREATE TRIGGER chaos_deaths AFTER UPDATE ON operation_steps FOR EACH ROW
    WHEN (NEW.deaths > OLD.deaths) EXECUTE FUNCTION chaos_note_death();
"""

#: Only the claimant, a takeover, or an abort with a new fence ends `running`. A claim precedes every
#: outcome.
_FOREIGN = """
WITH claims AS (
    SELECT operation, new_claim AS claim, who FROM chaos_moves
    WHERE new_state = 'running' AND old_state = 'queued'
)
SELECT moves.operation, moves.at, moves.who, moves.old_state, moves.new_state,
    moves.old_fence, moves.new_fence, moves.old_cursor, moves.new_cursor, claims.who
FROM chaos_moves AS moves
LEFT JOIN claims ON claims.operation = moves.operation AND claims.claim = moves.old_claim
WHERE moves.old_state = 'running' AND NOT moves.aborted
    AND (claims.who IS NULL OR claims.who <> moves.who)
    AND NOT EXISTS (
        SELECT 1 FROM chaos_deaths AS deaths
        WHERE deaths.tx = moves.tx AND deaths.operation = moves.operation
    )
ORDER BY moves.id
"""


def lay(site):
    site.query(LAY)


def written_by_others(site):
    """Records of steps by processes that did not hold them, as rows of the audit."""
    return site.query(_FOREIGN)


def counts(site):
    """Return (claims, records, takeovers)."""
    return site.query(
        "SELECT count(*) FILTER (WHERE new_state = 'running' AND old_state = 'queued'),"
        " count(*) FILTER (WHERE old_state = 'running'),"
        " (SELECT count(*) FROM chaos_deaths) FROM chaos_moves"
    )[0]
