"""Parts of other people that judge schemas: reads a list of schemas as JSON, and prints a list of their objections.

The argument names the judge: the converter of a vendor's SDK, which must change nothing; llguidance, which must
compile a grammar; or the server of llama.cpp, which must write a reply of the schema. None means no objection.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import xllamacpp
from anthropic.lib._parse._transform import transform_schema
from jsonschema import Draft202012Validator
from llguidance import LLMatcher, LLTokenizer, grammar_from
from openai.lib._pydantic import _ensure_strict_json_schema

SEED = 7
MOST_TOKENS = 200
FIRST_BYTE = 3
VOCABULARY = FIRST_BYTE + 256
UNWANTED = [0, 1, FIRST_BYTE, FIRST_BYTE + ord("`"), *range(FIRST_BYTE + 128, VOCABULARY)]
BIAS = {**dict.fromkeys(UNWANTED, -100), FIRST_BYTE + ord('"'): 4}
"""Of the tokens, none without a text, and no letters but ASCII. No fence, since one that is cut is an error. Short texts."""


def judge_by_openai(schemas: list) -> Iterator[str | None]:
    for schema in schemas:
        made = copy.deepcopy(schema)
        yield compare(schema, _ensure_strict_json_schema(made, path=(), root=made))


def judge_by_anthropic(schemas: list) -> Iterator[str | None]:
    for schema in schemas:
        try:
            yield compare(schema, transform_schema(copy.deepcopy(schema)))
        except ValueError as error:
            yield str(error)


def compare(sent: object, made: object, place: str = "") -> str | None:
    """Return the first difference between a schema and the schema that a converter made of it."""
    if isinstance(sent, dict) and isinstance(made, dict):
        for name in {**sent, **made}:
            if name not in made or name not in sent:
                return f"{place}/{name} is {'left out' if name in sent else f'added: {made[name]}'}"
            if found := compare(sent[name], made[name], f"{place}/{name}"):
                return found
        return None
    if isinstance(sent, list) and isinstance(made, list) and len(sent) == len(made):
        pairs = enumerate(zip(sent, made, strict=True))
        found = (compare(one, other, f"{place}/{at}") for at, (one, other) in pairs)
        return next((one for one in found if one), None)
    same = type(sent) is type(made) and sent == made
    return None if same else f"{place} is {json.dumps(made)[:200]}, not {json.dumps(sent)[:200]}"


def judge_by_llguidance(schemas: list) -> Iterator[str | None]:
    tokenizer = LLTokenizer("byte")
    for schema in schemas:
        grammar = grammar_from("json_schema", json.dumps(schema))
        yield LLMatcher.validate_grammar(grammar, tokenizer) or None


def judge_by_llama_cpp(schemas: list) -> Iterator[str | None]:
    """Let a model of random weights write a reply of each schema: whatever it writes must fit."""
    with tempfile.TemporaryDirectory() as folder:
        address = start_llama_cpp(Path(folder) / "random.gguf")
        for schema in schemas:
            text, is_whole = ask_llama_cpp(address, schema)
            if not is_whole:
                yield None if is_whole is None else text
                continue
            try:
                value = json.loads(text, strict=False)
            except ValueError:
                yield f"wrote {text[:200]!r}, which is not JSON"
                continue
            wrong = next(Draft202012Validator(schema).iter_errors(value), None)
            yield None if wrong is None else f"wrote {text[:200]!r}: {wrong.message[:200]}"


def start_llama_cpp(path: Path) -> str:
    """Start the server with a tiny model; returns its address."""
    write_random_model(path)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = 2048
    params.n_parallel = 1
    params.warmup = False
    params.use_jinja = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    global server  # noqa: PLW0603  # REASON: it ends when nothing refers to it
    server = xllamacpp.Server(params)
    return server.listening_address


def ask_llama_cpp(address: str, schema: object) -> tuple[str, bool | None]:
    """Return the text of a reply and True; None in its place if the reply is cut; an error and False."""
    body = {
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": MOST_TOKENS,
        "temperature": 1.2,
        "seed": SEED,
        "logit_bias": BIAS,
        "response_format": {"type": "json_schema", "json_schema": {"schema": schema}},
    }
    data, headers = json.dumps(body).encode(), {"content-type": "application/json"}
    request = urllib.request.Request(f"{address}/v1/chat/completions", data, headers)
    try:
        with urllib.request.urlopen(request) as response:
            (choice,) = json.load(response)["choices"]
    except urllib.error.HTTPError as error:
        return f"{error.code}: {error.read().decode()[:500]}", False
    is_whole = True if choice["finish_reason"] == "stop" else None
    return choice["message"]["content"] or "", is_whole


def write_random_model(path: Path) -> None:
    """Write a model of one layer, whose tokens are the bytes."""
    width = 32
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(width)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("llama")
    tokens = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * VOCABULARY)
    kind = gguf.TokenType
    writer.add_token_types([kind.UNKNOWN, kind.CONTROL, kind.CONTROL, *[kind.BYTE] * 256])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(value=False)
    writer.add_chat_template("{% for message in messages %}{{ message.content }}{% endfor %}")
    random = np.random.default_rng(SEED)
    shapes = dict.fromkeys(["token_embd", "output"], (VOCABULARY, width))
    shapes |= {f"blk.0.attn_{name}": (width, width) for name in ("q", "k", "v", "output")}
    shapes |= {f"blk.0.ffn_{name}": (width, width) for name in ("gate", "up", "down")}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random.normal(0, 0.1, shape).astype(np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


JUDGES = {
    "openai": judge_by_openai,
    "anthropic": judge_by_anthropic,
    "llguidance": judge_by_llguidance,
    "llama_cpp": judge_by_llama_cpp,
}

if __name__ == "__main__":
    objections = list(JUDGES[sys.argv[1]](json.load(sys.stdin)))
    print(json.dumps(objections), flush=True)
    os._exit(0)  # the server of llama.cpp would wait for its threads
