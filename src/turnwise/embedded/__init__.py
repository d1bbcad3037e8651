"""The model that ships with turnwise: a small Qwen3, and how it is made."""
