"""Values that a server's resources and prompts hold."""

from collections.abc import Iterator
from dataclasses import replace

from turnwise.explore.first.document import document_of
from turnwise.explore.first.prose_examples import examples_in
from turnwise.explore.first.value_sources import values_of
from turnwise.explore.first.values import Source, Value
from turnwise.mcp.offerings import Offerings

_NO_OBSERVATION = -1
MAX_VALUES = 1_000
"""Values of one server's resources and prompts together."""


def offered_values(offerings: Offerings) -> Iterator[Value]:
    """Yield addresses, names and contents of resources, and examples for the arguments of prompts."""
    for _, value in zip(range(MAX_VALUES), _values(offerings), strict=False):
        yield value


def _values(offerings: Offerings) -> Iterator[Value]:
    for resource in offerings.resources:
        if not resource.is_template:
            yield Value(resource.uri, "uri", Source.RESOURCE, context="resource")
            yield Value(resource.name, "name", Source.RESOURCE, context="resource")
        for text in examples_in(resource.description):
            yield Value(text, "", Source.DESCRIPTION, context=resource.name)
    for prompt in offerings.prompts:
        for parameter in prompt.parameters:
            for text in examples_in(parameter.description):
                yield Value(text, parameter.name, Source.DESCRIPTION, context=prompt.name)
    for resource in offerings.resources:
        if resource.text:
            for value in values_of(_NO_OBSERVATION, document_of(resource.text), tool_name=resource.name):
                # no call showed it: it starts no chain
                yield replace(value, source=Source.RESOURCE, observation=None, path=())
