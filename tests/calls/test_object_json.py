import enum
from types import SimpleNamespace
from unittest.mock import Mock

from holdfast.calls.object_json import to_json_object, to_json_value


class Colour(enum.Enum):
    RED = "red"


def test_what_an_object_says_of_itself_comes_first() -> None:
    class Model:
        def model_dump(self, **settings: object) -> dict[str, object]:
            assert settings["exclude_none"] is True
            return {"by": "model_dump"}

        def dict(self) -> dict[str, object]:
            return {"by": "dict"}

    assert to_json_object(Model()) == {"by": "model_dump"}


def test_a_method_of_that_name_with_other_parameters_is_passed_over() -> None:
    class Old:
        def model_dump(self) -> dict[str, object]:
            return {"by": "model_dump"}

        def to_dict(self) -> dict[str, object]:
            return {"by": "to_dict"}

    assert to_json_object(Old()) == {"by": "to_dict"}


def test_values_count_and_attributes_do_not() -> None:
    mock = Mock(text="Hi", candidates=[])
    found = to_json_object(mock) or {}
    assert (found["text"], found["candidates"]) == ("Hi", [])
    assert "function_call" not in found
    assert to_json_object(
        SimpleNamespace(parts=[SimpleNamespace(text="a", function_call=None)])
    ) == {"parts": [{"text": "a"}]}


def test_a_circle_ends() -> None:
    ring = SimpleNamespace(text="a")
    ring.me = ring
    ring.list = [ring]
    assert to_json_object(ring) == {"text": "a", "me": None, "list": [None]}


def test_no_property_is_run_beside_the_fields_of_a_response() -> None:
    class Response:
        def __init__(self) -> None:
            self.candidates = [{"x": 1}]

        @property
        def text(self) -> str:
            raise AssertionError("a property was run")

    assert to_json_object(Response()) == {"candidates": [{"x": 1}]}


def test_scalars_are_not_objects() -> None:
    assert [to_json_object(thing) for thing in ("a", 1, None, b"a", [1], int, len)] == [None] * 7


def test_values_as_json_has_them() -> None:
    assert to_json_value([b"\xff", Colour.RED, (1, None)]) == ["/w==", "red", [1, None]]
