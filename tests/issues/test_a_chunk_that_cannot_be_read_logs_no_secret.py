"""The log of a chunk that could not be read had the whole exception, with the key in its text."""

from __future__ import annotations

import logging

import pytest

from holdfast.calls import ResponseHandler

KEY = "sk-proj-Abcdefghijklmnopqrstuvwxyz0123456789"


class Broken:
    """A chunk of a client that fails with a key in its text."""

    @property
    def choices(self) -> object:
        raise RuntimeError(f"the request with {KEY} failed")


def chunks() -> object:
    yield Broken()


def test_its_log_says_where_and_not_the_key(caplog: pytest.LogCaptureFixture) -> None:
    handler = ResponseHandler()
    formatter = logging.Formatter("%(message)s %(chunk_num)s %(error)s")
    with caplog.at_level(logging.ERROR), pytest.raises(RuntimeError):
        handler.handle(chunks())
    (record,) = [one for one in caplog.records if one.message == "Chunk processing failed"]
    assert KEY not in formatter.format(record) + caplog.text
    assert "in choices" in formatter.format(record)
