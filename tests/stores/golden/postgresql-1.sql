CREATE TABLE turnstream_schema (version integer NOT NULL);
INSERT INTO turnstream_schema VALUES (0);
CREATE TABLE stored_events (
        originator_id text COLLATE "C" NOT NULL,
        originator_version bigint NOT NULL,
        topic text COLLATE "C" NOT NULL,
        state bytea NOT NULL,
        notification_id bigserial NOT NULL,
        PRIMARY KEY (originator_id, originator_version));
CREATE UNIQUE INDEX stored_events_log ON stored_events (notification_id);
CREATE TABLE sessions (
        id text COLLATE "C" PRIMARY KEY,
        version bigint NOT NULL,
        status text COLLATE "C" NOT NULL,
        agent text COLLATE "C" NOT NULL,
        tenant text COLLATE "C" NOT NULL,
        created bigint NOT NULL,
        updated bigint NOT NULL,
        deleted bigint,
        approvals text COLLATE "C" NOT NULL,
        head text COLLATE "C" NOT NULL,
        size bigint NOT NULL,
        parent text COLLATE "C",
        shared bigint) WITH (fillfactor = 70);
CREATE INDEX sessions_forks ON sessions (parent) WHERE parent IS NOT NULL;
CREATE TABLE generations (last bigint NOT NULL);
INSERT INTO generations VALUES (0);
CREATE TABLE snapshots (
        id text COLLATE "C" NOT NULL,
        version bigint NOT NULL,
        fold bigint NOT NULL,
        state bytea NOT NULL,
        PRIMARY KEY (id, version, fold));
CREATE TABLE read_models (
        generation bigserial PRIMARY KEY,
        name text COLLATE "C" NOT NULL,
        fold bigint NOT NULL,
        position bigint NOT NULL,
        live boolean NOT NULL,
        UNIQUE (name, live));
CREATE TABLE read_model_rows (
        generation bigint NOT NULL,
        key bytea NOT NULL,
        row bytea NOT NULL,
        PRIMARY KEY (generation, key));

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
    IF pg_advisory_xact_lock('stored_events'::regclass::oid::integer, 1) IS NULL THEN RETURN 0; END IF;
    IF copies THEN
        SELECT version, deleted INTO reached, gone FROM sessions WHERE id = row_parent FOR SHARE;
        reached := coalesce(reached, 0);
        IF gone IS NOT NULL THEN RETURN -4; END IF;
        IF reached < expected THEN RETURN -(reached * 8 + 3); END IF;
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
        IF gone IS NOT NULL THEN RETURN -2; END IF;
        SELECT max(notification_id) INTO place FROM stored_events
        WHERE originator_id = sid
            AND originator_version > expected AND originator_version <= expected + added
        HAVING array_agg(topic ORDER BY originator_version) = topics
            AND array_agg(state ORDER BY originator_version) = states;
        RETURN coalesce(place, -(reached * 8 + 1));
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
    IF NOT pg_try_advisory_xact_lock('stored_events'::regclass::oid::integer, 2) THEN
        PERFORM pg_notify(current_schema() || '.log', '');
    END IF;
    RETURN place;
END $body$
;
DELETE FROM stored_events;
INSERT INTO stored_events VALUES ('done', 1, 'session_started', '{"agent":"planner","tenant":"acme","at":"2026-11-30T02:31:14.049642Z"}', 1);
INSERT INTO stored_events VALUES ('done', 2, 'input_queued', '{"input_id":"181286c1bb07da1f","content":"one and two?","at":"2026-11-30T02:31:14.049642Z","prev":"mxMjGix-8-B9lSQT9A8EnnEWuQjIlOqbopw3PHto-kc"}', 2);
INSERT INTO stored_events VALUES ('done', 3, 'agent_configured', '{"name":"planner","model":"scripted","tools":[{"name":"add","description":"Add.","schema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}},{"name":"remove","description":"Remove.","schema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}],"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.049642Z","prev":"k7TSlGhbJYBHn5YefvMYj2uwGgmeox56eDPn4TeXqwo"}', 3);
INSERT INTO stored_events VALUES ('done', 4, 'turn_started', '{"turn_id":"turn-1","input_ids":["181286c1bb07da1f"],"agent":"planner","budget":{"max_steps":32},"owner":{"generation":1,"node":"2826833c"},"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.049642Z","prev":"UZ9qT_G6gTZersIWxq0zBYjlKNli5ww471W1xWD225o"}', 4);
INSERT INTO stored_events VALUES ('done', 5, 'model_turn_recorded', '{"turn_id":"turn-1","step":1,"tool_calls":[{"id":"call-1-1","name":"add","arguments":{"a":1,"b":2}}],"model":"scripted","finish_reason":"tool_calls","at":"2026-11-30T02:31:14.058231Z","prev":"-n9eTe2xQI4B8xWDX3nd-YwAz1qUvq5HlkqalQqtcv8"}', 5);
INSERT INTO stored_events VALUES ('done', 6, 'tool_call_started', '{"turn_id":"turn-1","call_id":"call-1-1","at":"2026-11-30T02:31:14.058231Z","prev":"yrTq_MbsMvDmThaaJY4mtX-vzrTcrfZkpp4GrkiV7nY"}', 6);
INSERT INTO stored_events VALUES ('done', 7, 'tool_result_recorded', '{"turn_id":"turn-1","call_id":"call-1-1","content":3,"at":"2026-11-30T02:31:14.063957Z","prev":"crU117EAl_dRACTUdIhhKCDFhAwP9I9A5mpvVxintSk"}', 7);
INSERT INTO stored_events VALUES ('done', 8, 'model_turn_recorded', '{"turn_id":"turn-1","step":2,"text":"three","model":"scripted","at":"2026-11-30T02:31:14.073508Z","prev":"Dzq1UuEVAvvHwkuMA6sPe32I3eZTyaM-RfH1Jn5Yk_A"}', 8);
INSERT INTO stored_events VALUES ('done', 9, 'turn_finished', '{"turn_id":"turn-1","at":"2026-11-30T02:31:14.073508Z","prev":"fSTHUxp69s9T8FnQOUKJMeBIuD877sALKiPPPtNsIW0"}', 9);
INSERT INTO stored_events VALUES ('done', 10, 'input_queued', '{"input_id":"8cc85eb3e52dba07","content":"again?","at":"2026-11-30T02:31:14.077345Z","prev":"7L6JgtMAzyNhsBOmpyC_f9UH3Y_ks3SPBtjq0l-GSmc"}', 10);
INSERT INTO stored_events VALUES ('done', 11, 'turn_started', '{"turn_id":"turn-2","input_ids":["8cc85eb3e52dba07"],"agent":"planner","budget":{"max_steps":32},"owner":{"generation":1,"node":"2826833c"},"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.077345Z","prev":"WqeYTb58jlBY855ou01OIfgvHAnZo1XnaMgrOYtPE8U"}', 11);
INSERT INTO stored_events VALUES ('done', 12, 'model_turn_recorded',  E'{"$tagged":true,"turn_id":"turn-2","step":1,"text":"again: three \\\\ud83d\\\\u0000 \\303\\244","model":"scripted","at":"2026-11-30T02:31:14.081320Z","prev":"_9pYrAk38VJOhuCGfLy-WjCSX1Uo2GJJr4XUMjh7pYE"}', 12);
INSERT INTO stored_events VALUES ('done', 13, 'turn_finished', '{"turn_id":"turn-2","at":"2026-11-30T02:31:14.081320Z","prev":"XdfdQQtVE5m8Q4Bs90TZBvLel46F6dGs9q6Fe8722uA"}', 13);
INSERT INTO stored_events VALUES ('forked', 1, 'session_started', '{"agent":"planner","tenant":"acme","at":"2026-11-30T02:31:14.049642Z"}', 59);
INSERT INTO stored_events VALUES ('forked', 2, 'input_queued', '{"input_id":"181286c1bb07da1f","content":"one and two?","at":"2026-11-30T02:31:14.049642Z","prev":"mxMjGix-8-B9lSQT9A8EnnEWuQjIlOqbopw3PHto-kc"}', 60);
INSERT INTO stored_events VALUES ('forked', 3, 'agent_configured', '{"name":"planner","model":"scripted","tools":[{"name":"add","description":"Add.","schema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}},{"name":"remove","description":"Remove.","schema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}],"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.049642Z","prev":"k7TSlGhbJYBHn5YefvMYj2uwGgmeox56eDPn4TeXqwo"}', 61);
INSERT INTO stored_events VALUES ('forked', 4, 'turn_started', '{"turn_id":"turn-1","input_ids":["181286c1bb07da1f"],"agent":"planner","budget":{"max_steps":32},"owner":{"generation":1,"node":"2826833c"},"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.049642Z","prev":"UZ9qT_G6gTZersIWxq0zBYjlKNli5ww471W1xWD225o"}', 62);
INSERT INTO stored_events VALUES ('forked', 5, 'model_turn_recorded', '{"turn_id":"turn-1","step":1,"tool_calls":[{"id":"call-1-1","name":"add","arguments":{"a":1,"b":2}}],"model":"scripted","finish_reason":"tool_calls","at":"2026-11-30T02:31:14.058231Z","prev":"-n9eTe2xQI4B8xWDX3nd-YwAz1qUvq5HlkqalQqtcv8"}', 63);
INSERT INTO stored_events VALUES ('forked', 6, 'tool_call_started', '{"turn_id":"turn-1","call_id":"call-1-1","at":"2026-11-30T02:31:14.058231Z","prev":"yrTq_MbsMvDmThaaJY4mtX-vzrTcrfZkpp4GrkiV7nY"}', 64);
INSERT INTO stored_events VALUES ('forked', 7, 'tool_result_recorded', '{"turn_id":"turn-1","call_id":"call-1-1","content":3,"at":"2026-11-30T02:31:14.063957Z","prev":"crU117EAl_dRACTUdIhhKCDFhAwP9I9A5mpvVxintSk"}', 65);
INSERT INTO stored_events VALUES ('forked', 8, 'model_turn_recorded', '{"turn_id":"turn-1","step":2,"text":"three","model":"scripted","at":"2026-11-30T02:31:14.073508Z","prev":"Dzq1UuEVAvvHwkuMA6sPe32I3eZTyaM-RfH1Jn5Yk_A"}', 66);
INSERT INTO stored_events VALUES ('forked', 9, 'turn_finished', '{"turn_id":"turn-1","at":"2026-11-30T02:31:14.073508Z","prev":"fSTHUxp69s9T8FnQOUKJMeBIuD877sALKiPPPtNsIW0"}', 67);
INSERT INTO stored_events VALUES ('forked', 10, 'input_queued', '{"input_id":"8cc85eb3e52dba07","content":"again?","at":"2026-11-30T02:31:14.077345Z","prev":"7L6JgtMAzyNhsBOmpyC_f9UH3Y_ks3SPBtjq0l-GSmc"}', 68);
INSERT INTO stored_events VALUES ('forked', 11, 'turn_started', '{"turn_id":"turn-2","input_ids":["8cc85eb3e52dba07"],"agent":"planner","budget":{"max_steps":32},"owner":{"generation":1,"node":"2826833c"},"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.077345Z","prev":"WqeYTb58jlBY855ou01OIfgvHAnZo1XnaMgrOYtPE8U"}', 69);
INSERT INTO stored_events VALUES ('forked', 12, 'model_turn_recorded',  E'{"$tagged":true,"turn_id":"turn-2","step":1,"text":"again: three \\\\ud83d\\\\u0000 \\303\\244","model":"scripted","at":"2026-11-30T02:31:14.081320Z","prev":"_9pYrAk38VJOhuCGfLy-WjCSX1Uo2GJJr4XUMjh7pYE"}', 70);
INSERT INTO stored_events VALUES ('forked', 13, 'turn_finished', '{"turn_id":"turn-2","at":"2026-11-30T02:31:14.081320Z","prev":"XdfdQQtVE5m8Q4Bs90TZBvLel46F6dGs9q6Fe8722uA"}', 71);
INSERT INTO stored_events VALUES ('forked', 14, 'session_started', '{"agent":"planner","tenant":"acme","forked_from":{"session_id":"done","version":13},"nonce":"5bb6d05fa44f97b3","at":"2026-11-30T02:31:14.349938Z","prev":"0JuecVmbWuu8uH0g7aXE4Y6eRWWmbmboaxBAu1QvB2Q"}', 72);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 1, 'session_started', '{"agent":"planner","tenant":"acme","at":"2026-11-30T02:31:14.162517Z"}', 27);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 2, 'input_queued', '{"input_id":"a7e70d0f07e66272","content":"one and two?","at":"2026-11-30T02:31:14.162517Z","prev":"egwouQ4VkIdY6nVV0TbGkDFti8KBDorbbvRrBNJ-_6c"}', 28);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 3, 'agent_configured', '{"name":"planner","model":"scripted","tools":[{"name":"add","description":"Add.","schema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}},{"name":"remove","description":"Remove.","schema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}],"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.162517Z","prev":"mL7xKrYsdqCtCZV_9ug16GPBewKAcoUq4jHQKqlfLX0"}', 29);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 4, 'turn_started', '{"turn_id":"turn-1","input_ids":["a7e70d0f07e66272"],"agent":"planner","budget":{"max_steps":32},"owner":{"generation":3,"node":"1c9f83b9"},"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.162517Z","prev":"R6UHw8g4qIt0LWiB7HlPRFxlME8IPrgScItIOKqBK6Q"}', 30);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 5, 'model_turn_recorded', '{"turn_id":"turn-1","step":1,"tool_calls":[{"id":"call-1-1","name":"add","arguments":{"a":1,"b":2}}],"model":"scripted","finish_reason":"tool_calls","at":"2026-11-30T02:31:14.169784Z","prev":"orTxdo81tU6dUJD0QPIGEUfut5OnMeR0qTJfZbTDO4s"}', 31);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 6, 'tool_call_started', '{"turn_id":"turn-1","call_id":"call-1-1","at":"2026-11-30T02:31:14.169784Z","prev":"O_la9Lre0G749mJtPSghyx9rz1VAvv9rgZJMcvI5t-Q"}', 32);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 7, 'tool_result_recorded', '{"turn_id":"turn-1","call_id":"call-1-1","content":3,"at":"2026-11-30T02:31:14.180962Z","prev":"QnifBDj7WETVbeydV4IBluUHW6gBvwx9QF6Yef8AM4Y"}', 33);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 8, 'model_turn_recorded', '{"turn_id":"turn-1","step":2,"text":"three","model":"scripted","at":"2026-11-30T02:31:14.182629Z","prev":"zVDWnclpbDJ6EYpyb73HLrWmDpxe05M9ES-kr-FxBJc"}', 34);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 9, 'turn_finished', '{"turn_id":"turn-1","at":"2026-11-30T02:31:14.182629Z","prev":"XxZ1FhBMmCUOe_D4NzFp0HXLvHQjad8Zr4AqRWChDas"}', 35);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 10, 'input_queued', '{"input_id":"56747cd28c86fe35","content":"again?","at":"2026-11-30T02:31:14.205467Z","prev":"7zDhbw9b-rQN15GwqraVigpVbKeuaM4iwdxZIqz0koA"}', 36);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 11, 'turn_started', '{"turn_id":"turn-2","input_ids":["56747cd28c86fe35"],"agent":"planner","budget":{"max_steps":32},"owner":{"generation":3,"node":"1c9f83b9"},"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.205467Z","prev":"afAXBmvUuTgbhkSpaPLIs0KhAcmcjGYpBVCIMZuSfnI"}', 37);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 12, 'model_turn_recorded',  E'{"$tagged":true,"turn_id":"turn-2","step":1,"text":"again: three \\\\ud83d\\\\u0000 \\303\\244","model":"scripted","at":"2026-11-30T02:31:14.208005Z","prev":"7YKWon5Z9avH6VgxkJjT5PhYTeeO9bJgX1qjuwXQaa0"}', 38);
INSERT INTO stored_events VALUES ( E'odd/Ä ''%\\..', 13, 'turn_finished', '{"turn_id":"turn-2","at":"2026-11-30T02:31:14.208005Z","prev":"15UKGevllEptpuF1hYzkh2JxclrJGAJSw1IKYXq4NS0"}', 39);
INSERT INTO stored_events VALUES ('waiting', 1, 'session_started', '{"agent":"planner","at":"2026-11-30T02:31:14.342429Z"}', 53);
INSERT INTO stored_events VALUES ('waiting', 2, 'input_queued', '{"input_id":"5239d85307f6cfd9","content":"remove it","at":"2026-11-30T02:31:14.342429Z","prev":"7ep-Fy8h5JrgJ3_9ki4v4Bw7AHeCpL1cISXR4Vun21o"}', 54);
INSERT INTO stored_events VALUES ('waiting', 3, 'agent_configured', '{"name":"planner","model":"scripted","tools":[{"name":"add","description":"Add.","schema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}},{"name":"remove","description":"Remove.","schema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}],"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.342429Z","prev":"FEVrV5A65-91Ee5a9kO0q7p-9NWYrn4PH84g-geGTtg"}', 55);
INSERT INTO stored_events VALUES ('waiting', 4, 'turn_started', '{"turn_id":"turn-1","input_ids":["5239d85307f6cfd9"],"agent":"planner","budget":{"max_steps":32},"owner":{"generation":5,"node":"d8abaa7f"},"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.342429Z","prev":"A0osRXq1Jy64rHNgZvGSfT2oZmIPE9V64PsH3msAnKo"}', 56);
INSERT INTO stored_events VALUES ('waiting', 5, 'model_turn_recorded', '{"turn_id":"turn-1","step":1,"tool_calls":[{"id":"call-1-1","name":"remove","arguments":{"path":"/x"}}],"model":"scripted","finish_reason":"tool_calls","at":"2026-11-30T02:31:14.345506Z","prev":"fy5YZneJVw524-z7O_VRyH7wBT5I9hovDiCyco4dmmY"}', 57);
INSERT INTO stored_events VALUES ('waiting', 6, 'approval_requested', '{"approval_id":"waiting/turn-1.1.1","turn_id":"turn-1","call_id":"call-1-1","at":"2026-11-30T02:31:14.345506Z","prev":"-IX3B5t1u-NJC7IxbedG-CG59ostVFhOmx1Q1Op8J1o"}', 58);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 1, 'session_started', '{"agent":"planner","tenant":"acme","at":"2026-11-30T02:31:14.248989Z"}', 40);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 2, 'input_queued', '{"input_id":"4a0a478a18175fff","content":"one and two?","at":"2026-11-30T02:31:14.248989Z","prev":"HB6Eb4pxLC-zOmTpXEtK0qCw3zegg9aWWDZBB62Fz2M"}', 41);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 3, 'agent_configured', '{"name":"planner","model":"scripted","tools":[{"name":"add","description":"Add.","schema":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}},{"name":"remove","description":"Remove.","schema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}],"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.248989Z","prev":"MtYF5hQB0KO7d7DgL2OEdR428XcD9K3p1LOd_BCX2-E"}', 42);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 4, 'turn_started', '{"turn_id":"turn-1","input_ids":["4a0a478a18175fff"],"agent":"planner","budget":{"max_steps":32},"owner":{"generation":4,"node":"7622139f"},"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.248989Z","prev":"e9in3l3UAVlESwIfi_4_Z8eWdlTH89v4_5kJT5GtZDQ"}', 43);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 5, 'model_turn_recorded', '{"turn_id":"turn-1","step":1,"tool_calls":[{"id":"call-1-1","name":"add","arguments":{"a":1,"b":2}}],"model":"scripted","finish_reason":"tool_calls","at":"2026-11-30T02:31:14.261477Z","prev":"9piqIQ0qO5CXjDiGDBKVLYyu4a4Z3x2faW92_1d3o1U"}', 44);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 6, 'tool_call_started', '{"turn_id":"turn-1","call_id":"call-1-1","at":"2026-11-30T02:31:14.261477Z","prev":"8iSPdy59J9wPBKj80wQQpdrS_L6GxpL4S9K6KiC-iiQ"}', 45);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 7, 'tool_result_recorded', '{"turn_id":"turn-1","call_id":"call-1-1","content":3,"at":"2026-11-30T02:31:14.269055Z","prev":"o613XzrxaODF-m-VLqVmQ5JrfNUzLdfq5YqI1dOWr6E"}', 46);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 8, 'model_turn_recorded', '{"turn_id":"turn-1","step":2,"text":"three","model":"scripted","at":"2026-11-30T02:31:14.285286Z","prev":"cB20DwH9KP8BrVNJNVGVGqT43RimeC5-Lc0asdYrUBA"}', 47);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 9, 'turn_finished', '{"turn_id":"turn-1","at":"2026-11-30T02:31:14.285286Z","prev":"NC9zCTplHfl5yezdM6rCLnKPe82DcU0Ii7RVhba0hFA"}', 48);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 10, 'input_queued', '{"input_id":"7e9aa5a0e36ec263","content":"again?","at":"2026-11-30T02:31:14.293320Z","prev":"wTjCKAAz_gzxAKrqHeESc2Hv035mTSx01sXqCS2i5JA"}', 49);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 11, 'turn_started', '{"turn_id":"turn-2","input_ids":["7e9aa5a0e36ec263"],"agent":"planner","budget":{"max_steps":32},"owner":{"generation":4,"node":"7622139f"},"fingerprint":"af5d36baff3fa1ff","at":"2026-11-30T02:31:14.293320Z","prev":"sHwbAsi6XxjE_AnJR6ZlLTO2k6pZQ81D9sPuPpcyXK8"}', 50);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 12, 'model_turn_recorded',  E'{"$tagged":true,"turn_id":"turn-2","step":1,"text":"again: three \\\\ud83d\\\\u0000 \\303\\244","model":"scripted","at":"2026-11-30T02:31:14.301289Z","prev":"cKFqv9fuIMI3plZB3nRJ_0f62Tup44-j7tAdboEI2nA"}', 51);
INSERT INTO stored_events VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 13, 'turn_finished', '{"turn_id":"turn-2","at":"2026-11-30T02:31:14.301289Z","prev":"1aSudOtSXsceAD8-dbX92g8nIzTN5MTE9XBZHYTriTs"}', 52);
DELETE FROM sessions;
INSERT INTO sessions VALUES ('done', 13, 'idle', 'planner', 'acme', 1796005874049642, 1796005874081320, NULL, '', '0JuecVmbWuu8uH0g7aXE4Y6eRWWmbmboaxBAu1QvB2Q', 2379, NULL, NULL);
INSERT INTO sessions VALUES ('forked', 14, 'idle', 'planner', 'acme', 1796005874349938, 1796005874349938, NULL, '', 'zK7P3jvt8OpXkST32BY0FJSBurpoPVmi7LkB3rNXYck', 2578, 'done', 13);
INSERT INTO sessions VALUES ('gone', 13, '', '', '', 1796005874119020, 1796005874145484, 1796005874358836, '', '', 0, NULL, NULL);
INSERT INTO sessions VALUES ( E'odd/Ä ''%\\..', 13, 'idle', 'planner', 'acme', 1796005874162517, 1796005874208005, NULL, '', 'vomF700CI-peAfU64_P95ZEYXf_bx3HhaLktZr0AvJY', 2379, NULL, NULL);
INSERT INTO sessions VALUES ('waiting', 6, 'awaiting-approval', 'planner', '', 1796005874342429, 1796005874345506, NULL, '[{"id":"waiting/turn-1.1.1","session_id":"waiting","turn_id":"turn-1","call_id":"call-1-1","tool":"remove","arguments":{"path":"/x"},"requested_at":"2026-11-30T02:31:14.345506Z"}]', 'y5Fdy3enEDJfVwdjJGdFeno70bv8VSCwaLXpQMGTZMw', 1302, NULL, NULL);
INSERT INTO sessions VALUES ('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 13, 'idle', 'planner', 'acme', 1796005874248989, 1796005874301289, NULL, '', 'TeJjDYkAROlS8zpVWnvD5UgSpvKVh7smOETPDyJZCcw', 2379, NULL, NULL);
DELETE FROM generations;
INSERT INTO generations VALUES (5);
DELETE FROM read_models;
INSERT INTO read_models VALUES (1, 'turnstream/nodes', 1, 10, true);
DELETE FROM read_model_rows;
SELECT setval('stored_events_notification_id_seq', 72, True);
SELECT setval('read_models_generation_seq', 1, True);
UPDATE turnstream_schema SET version = 1;
