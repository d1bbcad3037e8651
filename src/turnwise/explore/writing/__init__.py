"""A language model makes verified tasks natural: it chooses, words and joins them; execution decides."""
