"""Prompts as token ids, exact extensions of them, and the parsing of sampled turns."""

from turnwise.models.chat.detection import open_chat
from turnwise.models.chat.rendered import RenderedChat
from turnwise.models.chat.tokenizer import load_tokenizer

__all__ = ["RenderedChat", "load_tokenizer", "open_chat"]
