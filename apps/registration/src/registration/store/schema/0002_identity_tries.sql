-- How often somebody tried to say whose a player is; the key is a hash with a secret.
CREATE TABLE identity_tries (
    key TEXT PRIMARY KEY,
    tries BIGINT NOT NULL,
    since DOUBLE PRECISION NOT NULL
);
