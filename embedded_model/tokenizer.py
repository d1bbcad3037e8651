"""A small byte-level tokenizer designed for copying, with the special tokens and template of Qwen3.

A digit, or a letter of a ticker, is the same token at every position, so that the model can copy it by
attending to it. Text without a choice (a JSON key with its quotes) is one token, so that a choice (a tool, a
field) is one token too:

    <tool_call>|\\n{"name": "|fmp_get_quote|", "arguments": {"symbol": "|K|A|L|D|J|"}}\\n|</tool_call>
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MARKUP = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Tokens that Qwen3 adds but does not mark as special."""

_KEY = r'"[A-Za-z_]+": ?'
_PIECES = (
    # JSON keys with the brackets and quotes around them
    rf'[\[{{}}\],"\s]*{_KEY}(?:[\[{{]+{_KEY})*[\[{{]*"?',
    # the end of a JSON value; `\n` as JSON escapes it at the end of printed output
    r'(?:\\n)?\)*"?[}\]]+\n?',
    r"\d",
    # names in capitals, then tickers, letter by letter
    r"(?:FMP|NASDAQ|NYSE|USD|JSON|XML|API|CEO)(?![A-Za-z])|QnA",
    r"\p{Lu}(?=\p{Lu})|(?<=\p{Lu})\p{Lu}(?!\p{Ll})",
    # a company name has the same tokens after a space and after a quote: the space is a token of its own
    r"\p{Lu}\p{Ll}*",
    r"(?:[a-z_]+\()+",
    r" ?[\p{Ll}_]+",
    r" [-+*/] ",
    r"'s(?!\p{L})",
    r"\p{L}+|\p{N}",
    r"\n+| |\s+",
    r"[^\s\p{L}\p{N}]",
)


def make_tokenizer(texts: Iterable[str], vocabulary_size: int) -> Any:
    """Train the merges on these texts; a byte that no merge covers is a single token."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex("|".join(_PIECES)), behavior="isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, as_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    num_added = len(SPECIAL) + len(MARKUP)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size - num_added,
        min_frequency=3,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in MARKUP])
    made: Any = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=SPECIAL[2],
        pad_token=SPECIAL[0],
        clean_up_tokenization_spaces=False,
        chat_template=Path(__file__).with_name("qwen3.jinja").read_text("utf-8"),
    )
    return made
