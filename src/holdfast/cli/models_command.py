"""`holdfast models probe URL`: asks a server of Chat Completions how it differs, and prints its profile.

The profile is printed as the beginning of an agent file. The rest of the output is comments of that file, so
that it can be redirected as a whole. No key is printed.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from holdfast.cli.run_printer import make_printable
from holdfast.core.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.models import ProbeResult

_PROBE = "ask a server of Chat Completions, with at most eight small calls, how it differs, and print its profile"


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add a parser for `probe`."""
    words = sub.add_subparsers(dest="word", required=True, metavar="WORD")
    example = "example: holdfast models probe http://localhost:8000/v1 --model qwen3"
    probe = words.add_parser("probe", help=_PROBE, description=_PROBE, epilog=example)
    probe.add_argument("url", metavar="URL", help="the base URL of the server")
    probe.add_argument("--model", default="", help="default: the first that the server lists")
    probe.add_argument(
        "--key-env",
        metavar="VAR",
        help="the environment variable with the API key; default: no key",
    )
    probe.add_argument(
        "--provider",
        default="openai",
        metavar="NAME",
        help="whose profile is changed, such as vllm; default: openai",
    )


def main(args: argparse.Namespace) -> int:
    """Probe the server; return 1 if not one question was answered."""
    import asyncio

    from holdfast.models.probe import probe_endpoint

    key = _read_key(args.key_env)
    result = asyncio.run(probe_endpoint(args.url, args.model, provider=args.provider, api_key=key))
    for line in format_result(result, args.provider, args.key_env or ""):
        print(make_printable(line))
    return 0 if any(one.answer != "unknown" for one in result.findings) else 1


def _read_key(variable: str | None) -> str:
    if variable is None:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        problem = f"the environment variable {variable[:80]!r} is not set"
        raise ConfigurationError(
            "--key-env", problem, fix="Pass the name of a variable that has the key"
        )
    return key


def format_result(result: ProbeResult, provider: str, key_env: str = "") -> Iterator[str]:
    """Format what a probe found as an agent file with comments.

    Args:
        result: what was found.
        provider: whose profile was changed.
        key_env: the environment variable with the key; "" without one.
    """
    for number, call in enumerate(result.calls, 1):
        yield f"# {number}. {call.about}: {call.showed}"
    for finding in result.findings:
        yield f"# {finding.trait}: {finding.answer}: {finding.words}"
    yield from (f"# {note}" for note in result.notes)
    yield f"model = {_to_toml(f'{provider}:{result.model}')}"
    yield f"base_url = {_to_toml(result.base_url)}"
    if key_env:
        yield f"api_key_env = {_to_toml(key_env)}"
    if result.changes:
        yield ""
        yield "[profile]"
        yield from (f"{name} = {_to_toml(value)}" for name, value in result.changes.items())
    else:
        yield f"# the profile of {provider} fits as it is"


def _to_toml(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            # A text of JSON is one of TOML, except that TOML forbids one character.
            return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
        case list():
            items: Iterable[object] = value
            return f"[{', '.join(map(_to_toml, items))}]"
        case _:
            return str(value)
