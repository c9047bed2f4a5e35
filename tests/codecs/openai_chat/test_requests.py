"""Recorded requests as our types and back: the body means the same."""

import json
from collections import Counter

from tests.codecs.openai_chat.recorded_requests import NotOurs, meaning, question
from tests.corpus import rows

from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.core.errors import ConfigurationError


def test_recorded_requests_are_encoded_to_the_same_meaning() -> None:
    skipped: Counter[str] = Counter()
    compared = 0
    for row in rows("openai_chat"):
        body = (row.request or {}).get("body")
        if not isinstance(body, dict) or "chat/completions" not in str(row.request):
            skipped["no chat request"] += 1
            continue
        try:
            request, profile = question(body)
            encoded = OpenAIChat(profile).encode(request)
        except NotOurs as error:
            skipped[str(error)] += 1
            continue
        except ConfigurationError as error:
            # Some rows were recorded to see a server refuse them, as it does the history here.
            skipped[f"refused here: {error.argument.partition('[')[0]}"] += 1
            continue
        assert meaning(json.loads(encoded.body)) == meaning(body), row.id
        compared += 1
    print(f"\n{compared} requests compared; not compared: {dict(skipped.most_common())}")
    assert compared > 1000
