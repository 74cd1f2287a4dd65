"""What runs inside the server: an append as one call, so that it is one round trip.

Every append takes the lock of the log before anything else and keeps it until it is committed. So
positions are given out in the order in which they become visible, and a reader that has seen one
never has to look below it. Taken first, it also keeps two rounds of appends from waiting for each
other's rows.
"""

from __future__ import annotations

LOG = "'stored_events'::regclass::oid::integer"
"""The space of our advisory locks: the table's own number, which no other application takes."""
ORDER_OF_THE_LOG = 1
AUDIENCE = 2

LOCK_THE_LOG: bytes = f"SELECT pg_advisory_xact_lock({LOG}, {ORDER_OF_THE_LOG})".encode()

BEHIND, DELETED, ORIGIN_BEHIND, ORIGIN_DELETED = range(1, 5)
"""Why an append was refused; the last two are about the stream that it copies from."""
KINDS = 8
"""What a refused append returns is ``-(version * KINDS + kind)``; one that is written returns the
position of its last event. One number is much quicker to return than a row of several. For the
same reason the lock is taken in a condition, which PL/pgSQL evaluates without a query."""

# Whoever listens shares the lock of the audience: where an append can have it for itself, there
# is nobody to notify. PostgreSQL lets only one transaction that notifies commit at a time, in all
# databases of the server.
APPEND_EVENTS = f"""
CREATE FUNCTION append_events(
    sid text, expected bigint, topics text[], states bytea[], weight bigint,
    row_status text, row_agent text, row_tenant text, row_at bigint, row_approvals text,
    row_head text, row_created bigint, row_parent text, row_shared bigint, copies boolean)
RETURNS bigint LANGUAGE plpgsql AS $body$
DECLARE
    added constant bigint := cardinality(states);
    reached bigint;
    gone bigint;
    place bigint;
BEGIN
    IF pg_advisory_xact_lock({LOG}, {ORDER_OF_THE_LOG}) IS NULL THEN RETURN 0; END IF;
    IF copies THEN
        SELECT version, deleted INTO reached, gone FROM sessions WHERE id = row_parent FOR SHARE;
        reached := coalesce(reached, 0);
        IF gone IS NOT NULL THEN RETURN -{ORIGIN_DELETED}; END IF;
        IF reached < expected THEN RETURN -(reached * {KINDS} + {ORIGIN_BEHIND}); END IF;
        weight := weight + (SELECT sum(octet_length(state)) FROM stored_events
            WHERE originator_id = row_parent AND originator_version <= expected);
    END IF;
    IF expected > 0 AND NOT copies THEN
        UPDATE sessions SET version = expected + added, status = row_status, agent = row_agent,
            tenant = row_tenant, updated = row_at, approvals = row_approvals, head = row_head,
            size = size + weight
        WHERE id = sid AND version = expected AND deleted IS NULL;
    ELSE
        INSERT INTO sessions (id, version, status, agent, tenant, created, updated, approvals,
            head, size, parent, shared)
        VALUES (sid, expected + added, row_status, row_agent, row_tenant, row_created, row_at,
            row_approvals, row_head, weight, row_parent, row_shared)
        ON CONFLICT DO NOTHING;
    END IF;
    IF NOT FOUND THEN
        SELECT version, deleted INTO reached, gone FROM sessions WHERE id = sid;
        reached := coalesce(reached, 0);
        IF gone IS NOT NULL THEN RETURN -{DELETED}; END IF;
        SELECT max(notification_id) INTO place FROM stored_events
        WHERE originator_id = sid
            AND originator_version > expected AND originator_version <= expected + added
        HAVING array_agg(topic ORDER BY originator_version) = topics
            AND array_agg(state ORDER BY originator_version) = states;
        RETURN coalesce(place, -(reached * {KINDS} + {BEHIND}));
    END IF;
    IF copies THEN
        INSERT INTO stored_events (originator_id, originator_version, topic, state)
        SELECT sid, originator_version, topic, state FROM stored_events
        WHERE originator_id = row_parent AND originator_version <= expected
        ORDER BY originator_version;
    END IF;
    IF added = 1 THEN
        INSERT INTO stored_events (originator_id, originator_version, topic, state)
        VALUES (sid, expected + 1, topics[1], states[1]) RETURNING notification_id INTO place;
    ELSE
        INSERT INTO stored_events (originator_id, originator_version, topic, state)
        SELECT sid, expected + number, topic, state
        FROM unnest(topics, states) WITH ORDINALITY AS each (topic, state, number)
        ORDER BY number;
        place := currval('stored_events_notification_id_seq');
    END IF;
    IF NOT pg_try_advisory_xact_lock({LOG}, {AUDIENCE}) THEN
        PERFORM pg_notify(current_schema() || '.log', '');
    END IF;
    RETURN place;
END $body$
"""  # noqa: S608 - of constants
