"""Prompts as token ids, exact extensions of them, and the parsing of sampled turns."""

from turnwise.chat.detection import open_chat
from turnwise.chat.rendered import RenderedChat
from turnwise.chat.tokenizer import SMOLLM2, load_tokenizer, smollm2_file
from turnwise.runtime.embedded_model import EMBEDDED, EMBEDDED_FOLDER

__all__ = [
    "EMBEDDED",
    "EMBEDDED_FOLDER",
    "SMOLLM2",
    "RenderedChat",
    "load_tokenizer",
    "open_chat",
    "smollm2_file",
]
