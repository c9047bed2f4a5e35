"""The journal in memory passes the conformance suite."""

import pytest

from holdfast.journal.memory import MemoryJournal
from holdfast.testing.journal_conformance import JournalConformance


class TestMemoryJournal(JournalConformance):
    @pytest.fixture
    def journal(self) -> MemoryJournal:
        return MemoryJournal()
