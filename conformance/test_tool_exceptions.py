"""The exceptions of real clients: which of them leave open whether a tool acted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from conformance.test_clients_of_openai import needs_python, run_python

pytestmark = needs_python

SOURCE = str(Path(__file__).parent.parent / "src")
IN_DOUBT = ("lost", "timed_out")
NEVER_CONNECTED = {"psycopg", "pymongo", "grpc", "grpc_async"}
"""For these clients the servers that close or say nothing are no server at all, or answer no handshake."""


@pytest.fixture(scope="module")
def said() -> Any:
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")]))
    try:
        return run_python("tool_exceptions.py")
    finally:
        patch.undo()


def test_where_nobody_listens_nothing_was_sent(said: Any) -> None:
    verdicts = {client: row["refused"] for client, row in said["provoked"].items()}
    assert len(verdicts) == 14
    for client, verdict in verdicts.items():
        # A client of Redis may have sent the command before it was refused.
        expected = "lost" if client.startswith("redis") else "not_sent"
        assert verdict["says"] == expected, (client, verdict)


@pytest.mark.parametrize("ending", ["closed", "silent"])
def test_a_request_without_an_answer_is_in_doubt(said: Any, ending: str) -> None:
    for client, row in said["provoked"].items():
        if client not in NEVER_CONNECTED:
            assert row[ending]["says"] in IN_DOUBT, (client, row[ending])


def test_databases_say_that_no_session_began(said: Any) -> None:
    for client in ("psycopg", "pymongo"):
        row = said["provoked"][client]
        assert {row["closed"]["says"], row["silent"]["says"]} == {"not_sent"}, row


def test_exceptions_that_are_hard_to_provoke(said: Any) -> None:
    says = {name: row["says"] for name, row in said["made"].items()}
    in_doubt = {name for name, word in says.items() if word in IN_DOUBT}
    assert in_doubt == {
        "pymongo.AutoReconnect",
        "pymongo.NetworkTimeout",
        "pymongo.NotPrimaryError",
        "pymongo.WTimeoutError",
        "pymysql.InterfaceError",
        "pymysql.OperationalError.2006",
        "pymysql.OperationalError.2013",
        "redis.ConnectionError",
        "redis.TimeoutError",
        "grpc.CANCELLED",
        "grpc.DATA_LOSS",
        "grpc.DEADLINE_EXCEEDED",
        "grpc.INTERNAL",
        "grpc.UNAVAILABLE",
        "grpc.UNKNOWN",
    }
    assert {name for name, word in says.items() if word == "not_sent"} == {
        "pymongo.WaitQueueTimeoutError",
        "redis.AuthenticationError",
    }
