import os
import threading
from pathlib import Path

import pytest

from adh.storage.api_keys import ApiKeyError, ApiKeys, list_key_variables, open_keychain
from holdfast.errors import ConfigurationError


class FakeKeychain:
    def __init__(self) -> None:
        self.saved: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.saved.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.saved[service, username] = password


def test_the_environment_wins_over_a_file_and_a_file_over_the_keychain(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("GOOGLE_API_KEY='from file'\n")
    keychain = FakeKeychain()
    keychain.set_password("adh-cli", "GEMINI_API_KEY", "from keychain")
    environ = {"GOOGLE_API_KEY": " from environment "}
    found = [
        ApiKeys(environ, [file], keychain).find_key("gemini"),
        ApiKeys({}, [file], keychain).find_key("gemini"),
        ApiKeys({}, [], keychain).find_key("gemini"),
        ApiKeys({"GEMINI_API_KEY": "  "}, [tmp_path / "none"]).find_key("gemini"),
    ]
    assert [key and (key.value, key.source) for key in found] == [
        ("from environment", "environment"),
        ("from file", ".env"),
        ("from keychain", "keychain"),
        None,
    ]
    assert "GOOGLE_API_KEY" not in os.environ


def test_a_key_is_never_shown() -> None:
    key = ApiKeys({"OPENAI_API_KEY": "sk-0f1e2d3c"}).find_key("openai")
    assert key is not None
    assert "0f1e" not in f"{key!r} {key}"


def test_a_file_expands_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_ANOTHER", "stolen")
    (tmp_path / ".env").write_text("OPENAI_API_KEY=${SECRET_OF_ANOTHER}")
    key = ApiKeys({}, [tmp_path / ".env"]).find_key("openai")
    assert key is not None
    assert key.value == "${SECRET_OF_ANOTHER}"


def test_a_key_is_saved_in_the_keychain_alone() -> None:
    keychain = FakeKeychain()
    ApiKeys({}, keychain=keychain).save_key("anthropic", " k ")
    assert keychain.saved == {("adh-cli", "ANTHROPIC_API_KEY"): "k"}
    with pytest.raises(ApiKeyError, match="Set the environment variable ANTHROPIC_API_KEY"):
        ApiKeys({}).save_key("anthropic", "k")


def test_a_keychain_that_fails_or_hangs_is_told() -> None:
    class Failing(FakeKeychain):
        def get_password(self, service: str, username: str) -> str | None:
            raise RuntimeError("locked: secret details")

    released = threading.Event()

    class Hanging(FakeKeychain):
        def get_password(self, service: str, username: str) -> str | None:
            released.wait()
            return None

    with pytest.raises(ApiKeyError, match="failed with RuntimeError") as caught:
        ApiKeys({}, keychain=Failing()).find_key("openai")
    assert "details" not in str(caught.value)
    with pytest.raises(ApiKeyError, match="did not answer"):
        ApiKeys({}, keychain=Hanging(), keychain_seconds=0.01).find_key("openai")
    released.set()


def test_known_keys_are_removed_from_texts(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("GROQ_API_KEY=groq-value-1234567")
    keys = ApiKeys({"OPENAI_API_KEY": "openai-value-1234567"}, [tmp_path / ".env"])
    text = keys.find_secrets().remove_from("a groq-value-1234567 b openai-value-1234567")
    assert text == "a [redacted] b [redacted]"


def test_a_system_without_a_keychain_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring
    from keyring.backends import fail, null

    for backend in (fail.Keyring(), null.Keyring()):
        monkeypatch.setattr(keyring, "get_keyring", lambda backend=backend: backend)
        assert open_keychain() is None
    working = FakeKeychain()
    monkeypatch.setattr(keyring, "get_keyring", lambda: working)
    assert open_keychain() is working


def test_an_unknown_provider_is_an_error() -> None:
    with pytest.raises(ConfigurationError):
        ApiKeys({}).find_key("nobody")
    assert "GEMINI_API_KEY" in list_key_variables()
