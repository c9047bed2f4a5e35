import logging

import pytest

from holdfast.calls.session_log import SessionFilter, current_session, session_scope


def test_a_record_carries_the_session_of_its_context(caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.addFilter(SessionFilter())
    with session_scope("alice"):
        logging.getLogger("any").warning("x")
        with session_scope("unknown"):
            logging.getLogger("any").warning("x")
    logging.getLogger("any").warning("x")
    assert [vars(record)["session_id"] for record in caplog.records] == [
        "alice",
        "alice",
        "unknown",
    ]


def test_a_session_ends_with_its_block_also_when_that_raises() -> None:
    with pytest.raises(ZeroDivisionError), session_scope("alice"):
        raise ZeroDivisionError
    assert current_session() == "unknown"
