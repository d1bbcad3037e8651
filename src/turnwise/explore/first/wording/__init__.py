"""Plain English for tool calls: names, phrases, questions and requests for changes."""

from turnwise.explore.first.wording.arguments import fits_in_question
from turnwise.explore.first.wording.call_phrase import CallPhrase, call_phrase
from turnwise.explore.first.wording.changes import transfer_questions, write_questions
from turnwise.explore.first.wording.location import located
from turnwise.explore.first.wording.names import (
    field_noun,
    humanised,
    is_plain_name,
    listing,
    ordinal,
    plural,
    quoted,
    singular,
)
from turnwise.explore.first.wording.questions import FORMS, NUM_NAMED, questions, wordings_for

__all__ = [
    "FORMS",
    "NUM_NAMED",
    "CallPhrase",
    "call_phrase",
    "field_noun",
    "fits_in_question",
    "humanised",
    "is_plain_name",
    "listing",
    "located",
    "ordinal",
    "plural",
    "questions",
    "quoted",
    "singular",
    "transfer_questions",
    "wordings_for",
    "write_questions",
]
