"""The journal in memory passes the conformance suite."""

import pytest

from holdfast.journal.memory import MemoryJournal
from holdfast.testing.journal_conformance import JournalConformance
from holdfast.testing.store_conformance import StoreConformance


class TestMemoryJournal(JournalConformance, StoreConformance):
    @pytest.fixture
    def journal(self) -> MemoryJournal:
        return MemoryJournal()
