-- The tables of the registration service, for SQLite and PostgreSQL.
-- Times are seconds since 1970, amounts are pence, flags are 0 or 1, and texts named *_json are JSON.
-- Secrets are stored as hashes.

CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    token_hash TEXT NOT NULL,
    agent TEXT NOT NULL,
    progress_json TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    finished_at DOUBLE PRECISION
);
CREATE INDEX sessions_by_age ON sessions (updated_at);

-- The answer to each message, so that a message sent twice is answered once.
CREATE TABLE messages (
    session_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    turn TEXT NOT NULL,
    step BIGINT,
    text_digest TEXT NOT NULL,
    answer_json TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (session_id, message_id)
);
CREATE INDEX messages_by_turn ON messages (turn);

CREATE TABLE team_info (
    season TEXT NOT NULL,
    team TEXT NOT NULL,
    age_group TEXT NOT NULL,
    kit_needed BIGINT NOT NULL,
    kit_type TEXT,
    manager_emails_json TEXT NOT NULL,
    PRIMARY KEY (season, team, age_group)
);

CREATE TABLE registrations (
    id TEXT PRIMARY KEY,
    session_id TEXT,
    type TEXT NOT NULL,
    season TEXT NOT NULL,
    code TEXT NOT NULL,
    team TEXT NOT NULL,
    age_group TEXT NOT NULL,
    player_first TEXT NOT NULL,
    player_last TEXT NOT NULL,
    player_born TEXT NOT NULL,
    player_key TEXT NOT NULL,  -- the names, normalised, and the date of birth
    answers_json TEXT NOT NULL,
    status TEXT NOT NULL,  -- incomplete, pending_payment, active, suspended
    payment_day BIGINT,
    fee_pence BIGINT NOT NULL,
    monthly_pence BIGINT NOT NULL,
    link_hash TEXT UNIQUE,
    billing_request TEXT UNIQUE,
    fee_status TEXT,
    signing_fee_paid BIGINT NOT NULL DEFAULT 0,
    mandate TEXT,
    mandate_authorised BIGINT NOT NULL DEFAULT 0,
    subscription TEXT,
    subscription_activated BIGINT NOT NULL DEFAULT 0,
    sms_status TEXT,
    payment_asked_at DOUBLE PRECISION,
    suspended_at DOUBLE PRECISION,
    follow_ups BIGINT NOT NULL DEFAULT 0,
    kit_required BIGINT,
    kit_type TEXT,
    kit_size TEXT,
    shirt_number BIGINT,
    photo_file TEXT,
    conversation_json TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    UNIQUE (season, team, age_group, player_key)
);
CREATE INDEX registrations_by_status ON registrations (status, payment_asked_at);
CREATE INDEX registrations_by_team ON registrations (team, player_key);
CREATE INDEX registrations_by_session ON registrations (session_id);

CREATE TABLE shirt_numbers (
    season TEXT NOT NULL,
    team TEXT NOT NULL,
    age_group TEXT NOT NULL,
    number BIGINT NOT NULL,
    registration_id TEXT NOT NULL,
    reserved_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (season, team, age_group, number)
);
CREATE INDEX shirt_numbers_by_registration ON shirt_numbers (registration_id);

-- What was done outside, one outcome for each key.
CREATE TABLE effects (
    key TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    session_id TEXT,
    registration_id TEXT,
    outcome_json TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX effects_by_session ON effects (session_id);
CREATE INDEX effects_by_registration ON effects (registration_id);

-- What is to be done outside a turn. The key is the provider's idempotency key.
CREATE TABLE outbox (
    key TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    registration_id TEXT,
    session_id TEXT,
    payload_json TEXT NOT NULL,
    state TEXT NOT NULL,  -- queued, running, sent, delivered, failed
    attempts BIGINT NOT NULL DEFAULT 0,
    due_at DOUBLE PRECISION NOT NULL,
    lease TEXT,
    lease_until DOUBLE PRECISION,
    result_json TEXT,
    reason TEXT,
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX outbox_by_due ON outbox (state, due_at);
CREATE INDEX outbox_by_update ON outbox (updated_at) WHERE state IN ('queued', 'running');
CREATE INDEX outbox_by_registration ON outbox (registration_id);

-- What the payment provider reported, each event once.
CREATE TABLE webhook_events (
    event_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    happened_at DOUBLE PRECISION NOT NULL,
    registration_id TEXT,
    billing_request TEXT,
    mandate TEXT,
    payment TEXT,
    subscription TEXT,
    received_at DOUBLE PRECISION NOT NULL,
    applied_at DOUBLE PRECISION
);
CREATE INDEX webhook_events_waiting ON webhook_events (applied_at, received_at);
CREATE INDEX webhook_events_by_registration ON webhook_events (registration_id);
CREATE INDEX webhook_events_by_billing_request ON webhook_events (billing_request);
CREATE INDEX webhook_events_by_mandate ON webhook_events (mandate);
CREATE INDEX webhook_events_by_payment ON webhook_events (payment);
CREATE INDEX webhook_events_by_subscription ON webhook_events (subscription);

CREATE TABLE payments (
    id TEXT PRIMARY KEY,
    registration_id TEXT NOT NULL,
    kind TEXT NOT NULL,  -- fee, month
    month TEXT,
    status TEXT NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX payments_by_registration ON payments (registration_id);

CREATE TABLE photo_jobs (
    id TEXT PRIMARY KEY,
    session_id TEXT,
    registration_id TEXT,
    upload_hash TEXT NOT NULL,
    upload_file TEXT NOT NULL,  -- the name of the uploaded file
    stored_file TEXT,  -- the name of the finished photo
    state TEXT NOT NULL,  -- queued, running, done, rejected, failed, expired, replaced
    progress TEXT,
    message TEXT NOT NULL,
    created_at DOUBLE PRECISION NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX photo_jobs_by_session ON photo_jobs (session_id, created_at);

-- What a person in the office has to look at.
CREATE TABLE office_tasks (
    key TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    registration_id TEXT,
    session_id TEXT,
    reason TEXT NOT NULL,
    state TEXT NOT NULL,  -- open, done
    created_at DOUBLE PRECISION NOT NULL,
    done_at DOUBLE PRECISION
);
CREATE INDEX office_tasks_by_state ON office_tasks (state, created_at);
