"""Prompts as token ids, exact extensions of them, and the parsing of sampled turns."""

from turnwise.chat.detection import open_chat
from turnwise.chat.rendered import RenderedChat
from turnwise.chat.tokenizer import load_tokenizer

__all__ = ["RenderedChat", "load_tokenizer", "open_chat"]
