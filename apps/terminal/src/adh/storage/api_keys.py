"""API keys: from the environment, from `.env` files, or from the system's keychain.

A key is never an argument, and this module must never write one into a file. It never changes the
process's environment, which commands inherit.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from dotenv import dotenv_values
from msgspec import Struct

from adh.storage.private_files import read_private_file
from adh.storage.storage_errors import StorageError
from holdfast.models import PRESETS, SecretValues, find_preset

SERVICE = "adh-cli"
_MOST_BYTES = 1_000_000
_KEYCHAIN_SECONDS = 10.0

T = TypeVar("T")


class ApiKey(Struct, frozen=True):
    """An API key. Its text is never shown by `repr` or `str`.

    Args:
        value: the key.
        variable: the environment variable that it belongs to.
        source: where it was found.
    """

    value: str
    variable: str
    source: Literal["environment", ".env", "keychain"]

    def __repr__(self) -> str:
        return f"ApiKey({self.variable} from {self.source})"

    __str__ = __repr__


class ApiKeyError(StorageError):
    """There is no key of a provider, or the keychain cannot be used."""


class Keychain(Protocol):
    """The part of a keyring backend that is used."""

    def get_password(self, service: str, username: str) -> str | None:
        """Return a password; None if there is none."""
        ...

    def set_password(self, service: str, username: str, password: str) -> None:
        """Save a password."""
        ...


class ApiKeys:
    """The API keys of a person. The environment wins over `.env` files, and these over the keychain.

    Args:
        environ: the environment.
        env_files: `.env` files, the first one wins. That of a project counts only if it is trusted.
        keychain: the system's keychain; None without one.
        keychain_seconds: how long the keychain may take, as it may ask the person for a password.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        env_files: Sequence[Path] = (),
        keychain: Keychain | None = None,
        *,
        keychain_seconds: float = _KEYCHAIN_SECONDS,
    ) -> None:
        self._environ = environ
        self._env_files = tuple(env_files)
        self._keychain = keychain
        self._seconds = keychain_seconds

    def add_env_file(self, file: Path) -> None:
        """Use another `.env` file, after those before it."""
        if file not in self._env_files:
            self._env_files = (*self._env_files, file)

    @property
    def has_keychain(self) -> bool:
        """Whether keys can be saved."""
        return self._keychain is not None

    def find_key(self, provider: str) -> ApiKey | None:
        """Return the key of a provider; None if there is none, or if the provider needs none.

        Args:
            provider: its name, such as "gemini".

        Raises:
            ConfigurationError: there is no such provider.
            StorageError: a `.env` file cannot be read.
            ApiKeyError: the keychain cannot be read.
        """
        variables = find_preset(provider).key_env
        for variable in variables:
            if value := self._environ.get(variable, "").strip():
                return ApiKey(value, variable, "environment")
        for file in self._env_files:
            values = read_env_file(file)
            for variable in variables:
                if value := values.get(variable, "").strip():
                    return ApiKey(value, variable, ".env")
        keychain = self._keychain
        if keychain is None or not variables:
            return None
        saved = self._use_keychain(lambda: keychain.get_password(SERVICE, variables[0]))
        return ApiKey(saved, variables[0], "keychain") if saved else None

    def save_key(self, provider: str, value: str) -> None:
        """Save the key of a provider in the keychain.

        Raises:
            ConfigurationError: there is no such provider.
            ApiKeyError: the provider needs no key, or there is no keychain that can be used.
        """
        variables = find_preset(provider).key_env
        if not variables:
            raise ApiKeyError(provider, "needs no key", "Use it without one")
        keychain = self._keychain
        if keychain is None:
            fix = f"Set the environment variable {variables[0]}"
            raise ApiKeyError("The keychain", "of this system cannot be used", fix)
        self._use_keychain(lambda: keychain.set_password(SERVICE, variables[0], value.strip()))

    def find_secrets(self) -> SecretValues:
        """Return the values of all keys in the environment and in `.env` files, for redaction.

        Raises:
            StorageError: a `.env` file cannot be read.
        """
        known = list_key_variables()
        values = [self._environ.get(variable, "") for variable in known]
        for file in self._env_files:
            found = read_env_file(file)
            values += [found.get(variable, "") for variable in known]
        return SecretValues(value.strip() for value in values)

    def _use_keychain(self, work: Callable[[], T]) -> T:
        """Call the keychain in a thread, as it may wait for the person without end."""
        results: list[T] = []
        failures: list[Exception] = []

        def run() -> None:
            try:
                results.append(work())
            except Exception as error:  # noqa: BLE001  # REASON: a backend raises any exception
                failures.append(error)

        thread = threading.Thread(target=run, name="adh-keychain", daemon=True)
        thread.start()
        thread.join(self._seconds)
        fix = "Unlock it, or set an environment variable"
        if failures:
            problem = f"failed with {type(failures[0]).__name__}"
            raise ApiKeyError("The keychain", problem, fix) from failures[0]
        if not results:
            raise ApiKeyError("The keychain", f"did not answer within {self._seconds:g} s", fix)
        return results[0]


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a `.env` file; none if there is no file. References are not expanded.

    Raises:
        StorageError: the file cannot be read.
    """
    content = read_private_file(path, _MOST_BYTES)
    if content is None:
        return {}
    text = content.decode("utf-8-sig", "replace")
    values = dotenv_values(stream=io.StringIO(text), interpolate=False)
    return {name: value for name, value in values.items() if value is not None}


def list_key_variables() -> tuple[str, ...]:
    """Return the environment variables for the keys of all providers, sorted."""
    return tuple(sorted({name for preset in PRESETS.values() for name in preset.key_env}))


def explain_missing_key(provider: str) -> str:
    """Return how to set the key of a provider. Raises ConfigurationError.

    >>> explain_missing_key("gemini")
    'Set GEMINI_API_KEY or GOOGLE_API_KEY, in the environment or in a .env file.'
    """
    names = find_preset(provider).key_env
    if not names:
        return f"{provider} needs no key."
    return f"Set {' or '.join(names)}, in the environment or in a .env file."


def open_keychain() -> Keychain | None:
    """Return the system's keychain; None if there is none."""
    import keyring  # noqa: PLC0415  # REASON: it is slow to import, and often not needed
    from keyring.backends import fail, null  # noqa: PLC0415  # REASON: as above

    backend = keyring.get_keyring()
    return None if isinstance(backend, fail.Keyring | null.Keyring) else backend
