"""One call, and one question about its answer."""

from collections.abc import Iterator

from turnwise.explore.first.compose import answering, drafted, step_of
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.material import Material
from turnwise.explore.first.rivals import Rivals
from turnwise.explore.first.wording import call_phrase, questions


def look_up(material: Material) -> Iterator[Draft]:
    """Every query of every observation; a question names its tool if another one states the answer too."""
    rivals = Rivals(material.observations)
    for observation in material.observations:
        if observation.number in material.worth.wordy:
            continue
        phrase = call_phrase(observation.tool, observation.plain_arguments)
        for query in material.asked(observation):
            yield drafted(
                "look_up",
                turns=((step_of(observation),),),
                conclude=answering(query),
                questions=questions(
                    query.noun, [phrase], query.form, is_named=rivals.state(observation, query)
                ),
                tools=(observation.tool,),
                entities=material.entities(observation),
                key=f"{observation.key} {query.key}",
            )
