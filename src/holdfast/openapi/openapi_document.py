"""Reads an OpenAPI document, 3.0 or 3.1, from a file of JSON or YAML or from a dictionary, and follows its references.

Places are JSON pointers. A reference stays inside of the document. This module must never fetch anything, and must
never make an object of YAML other than texts, numbers, booleans, lists and dictionaries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.import_part import install_command
from holdfast.core.schema_checks.schema_nodes import shorten
from holdfast.core.schema_checks.schema_places import decode_step, step_into

Json: TypeAlias = dict[str, Any]

_MOST_REFERENCES: Final = 20
"""How many references may lead to an object, one after the other."""

_MOST_KEYS: Final = 20_000
"""How many keys a mapping in YAML may have, with those that it takes from others."""

_VERSION = re.compile(r"3\.[01]\.\d+(?:-.*)?")


class DocumentError(Exception):
    """A part of a document cannot be used.

    Args:
        place: the part, as a JSON pointer.
        problem: the fault, in words.
        fix: the way to correct it.
    """

    def __init__(self, place: str, problem: str, fix: str = "") -> None:
        super().__init__(problem)
        self.place = place
        self.problem = problem
        self.fix = fix


class OpenAPIDocument:
    """A document, and the objects that its references name.

    Args:
        root: the document.
        source: names it in errors: its file.

    Raises:
        ConfigurationError: it is not OpenAPI 3.0 or 3.1.
    """

    def __init__(self, root: Json, source: str) -> None:
        self.root = root
        self.source = source
        if "swagger" in root:
            problem = f"is Swagger {shorten(root['swagger'])}, and not OpenAPI 3"
            raise ConfigurationError(source, problem, fix="Convert it, as with npx swagger2openapi")
        version = root.get("openapi")
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            problem = f"is not OpenAPI 3.0 or 3.1: its version is {shorten(version)}"
            raise ConfigurationError(source, problem, fix='It begins with "openapi": "3.1.0"')
        if not isinstance(root.get("paths"), dict):
            raise ConfigurationError(source, "has no paths", fix="Pass the whole document")
        self.is_newer = version.startswith("3.1")
        """Whether schemas are those of JSON Schema 2020-12, and not those of 3.0."""

    def make_error(self, error: DocumentError) -> ConfigurationError:
        """Return the error of a part for the user."""
        return ConfigurationError(f"{self.source}#{error.place}", error.problem, fix=error.fix)

    def follow(self, value: object, place: str) -> tuple[Json, str]:
        """Return the object that a value is or refers to, and its place.

        Raises:
            DocumentError: there is none.
        """
        for _ in range(_MOST_REFERENCES):
            if not isinstance(value, dict):
                raise DocumentError(place, f"{shorten(value)} is not an object")
            if not isinstance(value.get("$ref"), str):
                return value, place
            value, place = self.look_up(value["$ref"], f"{place}/$ref")
        raise DocumentError(place, "refers to itself without an end")

    def look_up(self, reference: str, place: str) -> tuple[object, str]:
        """Return the value that a reference names, and its place.

        Args:
            reference: the reference, which begins with "#".
            place: where it stands.

        Raises:
            DocumentError: it leads out of the document, or to nothing.
        """
        base, _, pointer = reference.partition("#")
        if base:
            problem = f"has a reference to {shorten(reference)}, which is outside of it, and is never fetched"
            raise DocumentError(place, problem, "Bundle the files into one")
        if not pointer.startswith("/"):
            problem = f"has a reference to {shorten(reference)}, which is not a place in it"
            raise DocumentError(place, problem, 'Write it as "#/components/schemas/..."')
        found: object = self.root
        for step in pointer.split("/")[1:]:
            found = step_into(found, decode_step(step))
        if found is None:
            problem = f"has a reference to {shorten(reference)}, which is not in it"
            raise DocumentError(place, problem, "Correct it")
        return found, pointer


def extend_place(place: str, *steps: object) -> str:
    """Return the place of a value in an object.

    >>> extend_place("/paths", "/users/{id}", "get")
    '/paths/~1users~1{id}/get'
    """
    names = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "/".join((place, *names))


def read_document(given: str | Path | Mapping[str, object]) -> OpenAPIDocument:
    """Return a document.

    Args:
        given: its file, or the document itself.

    Raises:
        ConfigurationError: the file cannot be read, or is not OpenAPI 3.0 or 3.1.
    """
    check_value("path_or_dict", given, str | Path | Mapping)
    root: object
    if isinstance(given, Mapping):
        root, source = dict(given), "the OpenAPI document"
    else:
        path = Path(given)
        root, source = _read_file(path), path.name
    if not isinstance(root, dict):
        raise ConfigurationError(source, "is not an object", fix="Pass an OpenAPI document")
    return OpenAPIDocument(root, source)


def _read_file(path: Path) -> object:
    try:
        data = path.read_bytes()
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise ConfigurationError(str(path), problem, fix="Pass the path of a file") from error
    is_json = path.suffix == ".json" or data.lstrip()[:1] == b"{"
    if not is_json:
        return _read_yaml(data, path)
    try:
        root: object = msgspec.json.decode(data)
        doubled = _find_doubled_key(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(path.name, f"is not JSON: {error}") from error
    if doubled:
        raise _make_doubled_error(f"{path.name}#{doubled[0]}", doubled[1])
    return root


def _make_doubled_error(argument: str, key: str) -> ConfigurationError:
    problem = f"has the key {shorten(key)} twice, and one of them would be lost"
    return ConfigurationError(argument, problem, fix="Remove or rename one of them")


def _find_doubled_key(data: bytes) -> tuple[str, str] | None:
    """Return the place of an object in valid JSON that has a key twice, and the key; None if there is none."""
    found: dict[int, tuple[Json, str]] = {}

    def build(pairs: list[tuple[str, object]]) -> Json:
        made = dict(pairs)
        if len(made) < len(pairs):
            keys = [key for key, _ in pairs]
            # The object is kept, so that its id stays its own.
            found[id(made)] = made, next(key for key in keys if keys.count(key) > 1)
        return made

    root: object = json.loads(data, object_pairs_hook=build)
    waiting: list[tuple[str, object]] = [("", root)] if found else []
    while waiting:
        place, value = waiting.pop()
        if id(value) in found:
            return place, found[id(value)][1]
        if isinstance(value, dict):
            waiting += [(extend_place(place, key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(extend_place(place, at), inner) for at, inner in enumerate(value)]
    return None


def _check_yaml_keys(node: Any, path: Path) -> None:
    """Raise ConfigurationError if a mapping has a key twice; keys are texts, so 200 is "200"."""
    seen: set[str] = set()
    for key, _ in node.value:
        if key.tag == "tag:yaml.org,2002:merge" or not isinstance(key.value, str):
            continue
        if key.value in seen:
            raise _make_doubled_error(f"{path.name}, line {key.start_mark.line + 1}", key.value)
        seen.add(key.value)


def _read_yaml(data: bytes, path: Path) -> object:
    try:
        import yaml
    except ModuleNotFoundError as error:
        problem = "is YAML, and PyYAML is not installed"
        fix = install_command("openapi")
        raise ConfigurationError(path.name, problem, fix=fix) from error
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    # The mappings whose keys are those of the file, and not of another mapping too.
    checked: dict[int, object] = {}

    class Loader(base):  # type: ignore[misc]  # REASON: the parser in C may be missing
        """Reads the types of JSON: `on` is a text, and so is a date."""

        yaml_implicit_resolvers: Final[dict[str, object]] = {}

        def flatten_mapping(self, node: Any) -> None:  # REASON: PyYAML's signature
            """Put the mappings that `<<` names into a mapping, unless they multiply, or a key is there twice."""
            if id(node) not in checked:
                checked[id(node)] = node
                _check_yaml_keys(node, path)
            super().flatten_mapping(node)
            if len(node.value) > _MOST_KEYS:
                raise yaml.YAMLError(f"a mapping has more than {_MOST_KEYS:,} keys")

        def construct_mapping(
            self, node: Any, deep: bool = False
        ) -> dict[str, object]:  # REASON: PyYAML's signature
            """Return a mapping with texts as keys, such as "200"."""
            return {str(key): value for key, value in super().construct_mapping(node, deep).items()}

    for tag, pattern, first in _YAML_TYPES:
        Loader.add_implicit_resolver(
            f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), list(first)
        )
    try:
        loaded: object = yaml.load(data, Loader)  # noqa: S506  # REASON: the loader makes plain data
    except ConfigurationError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where is not None else ""
        raise ConfigurationError(f"{path.name}{line}", "is neither JSON nor YAML") from error
    return loaded


_YAML_TYPES: Final = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("merge", r"<<", "<"),
)  # fmt: skip
"""The types of YAML 1.2 that JSON has; the patterns match whole texts."""
