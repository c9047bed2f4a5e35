"""What the programs of the clients share: the arguments are the API, the scenario and the base URL.

What happened is printed as one JSON object; a failure is what happened, too.
"""

import json
import sys

PROMPT = "one two three four five six seven eight nine ten"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOL = {
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


def main(scenarios):
    """Run the scenario that the arguments name."""
    api, scenario, url = sys.argv[1:4]
    try:
        happened = scenarios[api][scenario](url)
    except Exception as error:
        status = getattr(error, "status_code", None)
        if status is None:
            raise
        happened = {"error": type(error).__name__, "status": status}
    print(json.dumps(happened))


def join(pieces):
    """Return a streamed text and the number of its pieces."""
    kept = [piece for piece in pieces if piece]
    return {"text": "".join(kept), "pieces": len(kept)}
