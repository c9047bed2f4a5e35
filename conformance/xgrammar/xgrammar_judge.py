"""xgrammar as a judge: reads pairs of a schema and a value as JSON, and prints a list of its objections.

It must compile each schema, without a warning that it ignores a part, and its grammar must take the value. None means
no objection. Its package asks for torch, which only its parts for a GPU use.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import types

import tvm_ffi  # noqa: F401  # REASON: it must not see the module that stands for torch


class Unused(types.ModuleType):
    """Stands for a package whose names are only mentioned."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(
            name,
            (),
            {
                "__init__": lambda *_args, **_keywords: None,
                "__class_getitem__": classmethod(lambda cls, _item: cls),
            },
        )
        setattr(self, name, made)
        return made


for package in ("torch", "transformers"):
    sys.modules[package] = Unused(package)

from xgrammar import Grammar  # noqa: E402  # REASON: see above
from xgrammar.testing import _is_grammar_accept_string  # noqa: E402  # REASON: see above


def judge(schema: object, value: object) -> str | None:
    try:
        grammar = Grammar.from_json_schema(json.dumps(schema))
    except RuntimeError as error:
        return str(error)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return None if _is_grammar_accept_string(grammar, text) else f"does not take {text[:200]}"


def main() -> None:
    pairs = json.load(sys.stdin)
    with tempfile.TemporaryFile() as warnings:  # they are written by its C++ code
        os.dup2(warnings.fileno(), 2)
        objections: list[str | None] = []
        for schema, value in pairs:
            before = warnings.seek(0, os.SEEK_END)
            objection = judge(schema, value)
            warnings.seek(before)
            objections.append(objection or warnings.read().decode() or None)
    print(json.dumps(objections))


main()
