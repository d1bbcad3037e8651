"""The secrets that tools answered with: no task may ask for one, name one or be answered by one."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace

from turnwise.explore.reading import read
from turnwise.explore.records import Call
from turnwise.explore.verdicts.refusal import Refusal
from turnwise.system.redaction import REDACTED, Redaction
from turnwise.system.secret_values import is_secret_field, secrets_in_data
from turnwise.tasks.rows import row_of
from turnwise.types import Task

HOLDS_SECRET = Refusal("it holds a secret")


class FoundSecrets:
    """Keys, passwords and the like in the answers so far."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()
        self._known_texts: set[int] = set()
        self._redaction: Redaction | None = None

    @property
    def redaction(self) -> Redaction:
        if self._redaction is None:
            self._redaction = Redaction(self._secrets)
        return self._redaction

    def learn(self, texts: Iterable[str]) -> None:
        """Look for secrets in answers."""
        num_known = len(self._secrets)
        for text in texts:
            if hash(text) not in self._known_texts:
                self._known_texts.add(hash(text))
                self._secrets |= secrets_in_data(text) | _secret_cells(text)
        if len(self._secrets) > num_known:
            self._redaction = None

    def is_in(self, text: str) -> bool:
        """Return whether a text holds a secret, one that was found before or one that is recognised now."""
        return REDACTED in text or bool(secrets_in_data(text)) or self.redaction.is_in(text)

    def refuse(self, task: Task) -> Refusal | None:
        """Return HOLDS_SECRET if the question, the truth or a call holds a secret; None if none does."""
        text = json.dumps(row_of(_with_results(task, lambda _: "")), ensure_ascii=False)
        return HOLDS_SECRET if self.is_in(text) else None

    def without_secrets(self, task: Task) -> Task:
        """Return the task with the secrets redacted that the results of its demonstration show."""
        return _with_results(task, self.redaction.redact)


def _with_results(task: Task, change: Callable[[str], str]) -> Task:
    turns = (
        replace(
            turn, results=tuple(replace(result, content=change(result.content)) for result in turn.results)
        )
        for turn in task.demonstration
    )
    return replace(task, demonstration=tuple(turns))


def _secret_cells(text: str) -> set[str]:
    """The secret values of fields and of columns."""
    records = [record for relation in read(Call("", "", {}), text) for record in relation.records()]
    named = [cell for record in records for cell in record.items()]
    return {value for name, value in named if isinstance(value, str) and is_secret_field(name, value)}
