"""Which tools are called with drawn inputs."""

from turnwise.explore.programs.drawn_inputs import may_compute
from turnwise.explore.reading import read
from turnwise.explore.records import Answer, Call, ToolFacts
from turnwise.types import Tool


def test_a_number_beside_a_known_thing_is_drawn() -> None:
    call, text = Call("units", "convert", {"value": 3, "unit": "mile"}), '{"converted": 4.83}'
    tool = Tool("convert", "", {}, "units", "convert")
    facts = ToolFacts(tool, "reader", (Answer(call, text, is_error=False, relations=read(call, text)),))
    assert may_compute(facts, {"unit"})
    assert not may_compute(facts, {"unit", "value"})
