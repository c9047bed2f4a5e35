-- How the agents of all processes call their tools that look something up: one row, or none for the default.
CREATE TABLE agent_mode (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    mode TEXT NOT NULL,  -- local, mcp
    changed_at DOUBLE PRECISION NOT NULL
);
