"""What the programs of the clients share: each line of input is a list of the API, the scenario and the base URL.

What happened is printed as one JSON object a line; a failure is what happened, too.
"""

import json
import sys
import traceback

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
    """Run the scenarios that the input names."""
    for line in sys.stdin:
        api, scenario, url = json.loads(line)
        try:
            happened = scenarios[api][scenario](url)
        except Exception as error:  # noqa: BLE001  # REASON: it is printed
            happened = {
                "error": type(error).__name__,
                "status": getattr(error, "status_code", None),
            }
            if happened["status"] is None:
                happened = {"crash": traceback.format_exc()}
        print(json.dumps(happened), flush=True)


def join(pieces):
    """Return a streamed text and the number of its pieces."""
    kept = [piece for piece in pieces if piece]
    return {"text": "".join(kept), "pieces": len(kept)}
