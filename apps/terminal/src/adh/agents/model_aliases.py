"""Aliases of models: a short name for a model with its parameters. Built-in ones first, then the person's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from adh.agents.agent_file import AgentFileError
from holdfast import ModelSettings, Usage

BUILT_IN_FILE = "built-in model_aliases.json"

_PLACE = re.compile(r" - at `(\$[^`]*)`$")


class ModelParameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of an alias; None leaves the provider's default.

    Args:
        temperature: from 0 to 2.
        max_output_tokens: the longest reply, in tokens.
        top_p: from 0 to 1.
        top_k: how many tokens are considered.
    """

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=1)] | None = None


class ModelPrice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The price of a model, in dollars for a million tokens.

    Args:
        input: tokens that are sent.
        output: tokens that are received.
        cached_input: tokens that are sent and that the provider has cached; None for the price of input.
    """

    input: Annotated[float, Meta(ge=0)]
    output: Annotated[float, Meta(ge=0)]
    cached_input: Annotated[float, Meta(ge=0)] | None = None

    def compute_cost(self, usage: Usage) -> float:
        """Return the cost of a usage, in dollars.

        >>> ModelPrice(input=1.0, output=4.0).compute_cost(Usage(input=500_000, output=250_000))
        1.5
        """
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = usage.input - usage.cached_input
        spent = fresh * self.input + usage.cached_input * cached + usage.output * self.output
        return spent / 1_000_000


class ModelAlias(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model with its parameters.

    Args:
        model_id: `provider:model`, such as "gemini:gemini-2.5-pro".
        parameters: its parameters.
        price: its price; None if it is not known.
    """

    model_id: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]*:.+")]
    parameters: ModelParameters = ModelParameters()
    price: ModelPrice | None = None

    def to_settings(self, own: ModelSettings) -> ModelSettings:
        """Return the settings of a request; those of the person win.

        Args:
            own: the person's settings.
        """
        found = self.parameters
        extra = _top_k_field(self.model_id, found.top_k)
        return msgspec.structs.replace(
            own,
            temperature=found.temperature if own.temperature is None else own.temperature,
            max_tokens=found.max_output_tokens if own.max_tokens is None else own.max_tokens,
            top_p=found.top_p if own.top_p is None else own.top_p,
            extra={**extra, **(own.extra or {})} or None,
        )


def _top_k_field(model_id: str, top_k: int | None) -> dict[str, object]:
    if top_k is None:
        return {}
    if model_id.startswith(("gemini:", "vertex:")):
        return {"generationConfig": {"topK": top_k}}
    return {"top_k": top_k}


def parse_aliases(text: str, file: str) -> dict[str, ModelAlias]:
    """Return the aliases of a file.

    Args:
        text: the content of the file.
        file: its name, for errors.

    Raises:
        AgentFileError: the text is no JSON, or a field is unknown or wrong.

    >>> parse_aliases('{"fast": {"model_id": "gemini:gemini-2.5-flash"}}', "a.json")["fast"].model_id
    'gemini:gemini-2.5-flash'
    """
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, ModelAlias])
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        problem = str(error)[: place.start()] if place else str(error)
        field = _name_field(text, place[1]) if place else ""
        raise AgentFileError(file, f"{field}: {problem}".lstrip(": "), _FIX) from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise AgentFileError(file, f"is no JSON: {error}", "Correct it") from None


_FIX = (
    'Write {"alias": {"model_id": "provider:model", "parameters": {"temperature": 0 to 2, '
    '"max_output_tokens": ..., "top_p": ..., "top_k": ...}, "price": {"input": ..., "output": ...}}}'
)


def _name_field(text: str, place: str) -> str:
    """Return the place of a wrong value with the name of its alias, which msgspec writes as `[...]`."""
    if not place.startswith("$[...]"):
        return place
    for name, value in msgspec.json.decode(text.encode(), type=dict[str, msgspec.Raw]).items():
        try:
            msgspec.json.decode(value, type=ModelAlias)
        except msgspec.ValidationError:
            return name + place.removeprefix("$[...]")
    return place


def built_in_aliases() -> dict[str, ModelAlias]:
    """Return the aliases that come with the program."""
    text = (files("adh.agents") / "built_in" / "model_aliases.json").read_text("utf-8")
    return parse_aliases(text, BUILT_IN_FILE)


def resolve_model(name: str, aliases: Mapping[str, ModelAlias], file: str = "") -> ModelAlias:
    """Return the model that a name means.

    Args:
        name: an alias, or `provider:model`.
        aliases: all aliases.
        file: where the name stands, for the error.

    Raises:
        AgentFileError: there is no such alias.
    """
    if name in aliases:
        return aliases[name]
    if ":" in name:
        return ModelAlias(model_id=name)
    fix = f"Write 'provider:model', or an alias: {', '.join(sorted(aliases))}"
    raise AgentFileError(file or "the settings", f"there is no model {name!r}", fix)
