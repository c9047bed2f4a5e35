"""An extension of the API reference: what reading the source alone does not show.

- A struct takes its fields as arguments, and so does a dataclass whose constructor is typed by overloads.
- A function that takes the keywords of a run or of its own module, as a `TypedDict`, takes each as an argument.
- The examples of a docstring are code.
"""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import griffe
import msgspec

# The module of the keywords of a run.
KEYWORDS = "holdfast.runtime.arguments.run_keywords"
EXAMPLE = re.compile(r"^>>> .*?(?=^\s*$|\Z)", re.MULTILINE | re.DOTALL)


class HoldfastDocs(griffe.Extension):
    """Read by mkdocstrings, which names it in mkdocs.yml."""

    def on_class(self, *, cls: griffe.Class, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Give a class whose arguments are its fields the signature that it has when it runs."""
        real = getattr(importlib.import_module(cls.module.path), cls.name, None)
        fields = dict(fields_of(real))
        if fields:
            receiver = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
            written = fields_as_written(real, loader)
            parameters = [
                parameter_of(written.get(name), name, kind) for name, kind in fields.items()
            ]
            init = griffe.Function("__init__", parameters=griffe.Parameters(receiver, *parameters))
            cls.set_member("__init__", init)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Write the keywords of a `TypedDict` one by one."""
        names = func.path.removeprefix(f"{func.module.path}.").split(".")
        real: object = importlib.import_module(func.module.path)
        for name in names:
            real = getattr(real, name, None)
        for name, annotation in keywords_of(real):
            func.parameters.add(
                griffe.Parameter(
                    name,
                    kind=griffe.ParameterKind.keyword_only,
                    annotation=annotation,
                    default="...",
                )
            )

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put the examples of a docstring into blocks of code."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(
                lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )


def fields_of(real: object) -> Iterator[tuple[str, griffe.ParameterKind]]:
    """The fields that a class takes as arguments, the positional ones first; none for another class."""
    positional, keyword = (
        griffe.ParameterKind.positional_or_keyword,
        griffe.ParameterKind.keyword_only,
    )
    if not isinstance(real, type):
        return
    if issubclass(real, msgspec.Struct) and "__init__" not in vars(real):
        yield from ((name, positional) for name in real.__match_args__)
        rest = (name for name in real.__struct_fields__ if name not in real.__match_args__)
        yield from ((name, keyword) for name in rest)
    elif dataclasses.is_dataclass(real):
        for field in dataclasses.fields(real):
            if field.init:
                yield field.name, keyword if field.kw_only else positional


def keywords_of(real: object) -> Iterator[tuple[str, str]]:
    """The keywords of a function that takes those of a run or of its module, with their types as written."""
    if not inspect.isfunction(real):
        return
    written = str(real.__annotations__.get("keywords", ""))
    unpacked = re.fullmatch(r"Unpack\[(\w+)(\[.*\])?\]", written)
    if unpacked is None:
        return
    known = vars(importlib.import_module(real.__module__)) | vars(importlib.import_module(KEYWORDS))
    keywords = known.get(unpacked[1])
    if keywords is not None:
        for name, annotation in keywords.__annotations__.items():
            yield name, annotation.__forward_arg__


def fields_as_written(real: type, loader: griffe.GriffeLoader) -> dict[str, griffe.Attribute]:
    """The fields of a class and of its bases, as the source writes them."""
    written: dict[str, griffe.Attribute] = {}
    for base in reversed(real.__mro__):
        if base.__module__.startswith("holdfast."):
            members = loader.modules_collection[f"{base.__module__}.{base.__qualname__}"].members
            written |= {
                name: member
                for name, member in members.items()
                if isinstance(member, griffe.Attribute)
            }
    return written


def parameter_of(
    attribute: griffe.Attribute | None, name: str, kind: griffe.ParameterKind
) -> griffe.Parameter:
    """One parameter, with the annotation and the default as the source writes them."""
    return griffe.Parameter(
        name,
        kind=kind,
        annotation=attribute.annotation if attribute else None,
        default=attribute.value if attribute else None,
    )
