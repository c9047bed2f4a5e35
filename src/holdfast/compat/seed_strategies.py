"""The breaker and the caches of the seeds, as options of our strategies, and the cache key of seed 003.

This module must never decide anything: the strategies do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import md5

from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.cache.options import CacheOptions

SEED_003_BREAKER = BreakerOptions(mode="consecutive", failures=5, open_seconds=60.0)
"""The breaker of seed 003: 5 failures in a row, 60 seconds; here it also counts and probes."""

SEED_002_CACHE = CacheOptions(ttl=600.0)
"""The cache of seed 002: ten minutes; here by a strong hash."""

SEED_003_CACHE = CacheOptions(entries=100, ttl=None)
"""The cache of seed 003: 100 answers, which never expire."""


def cache_key(messages: Sequence[object], agent_config: object) -> str:
    """The key function of seed 003, unchanged, for those who must read its keys.

    It joins two texts without a separator and hashes them with MD5, so two requests can be made to
    share a key: do not use it for a new cache.

    >>> cache_key([{"role": "user"}], {"model": "m"})
    'e6b8ae65d5aee1ea8475ef7f3def863d'
    """
    content = json.dumps(messages, sort_keys=True) + json.dumps(agent_config, sort_keys=True)
    return md5(content.encode(), usedforsecurity=False).hexdigest()
