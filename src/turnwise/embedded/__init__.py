"""The model included in turnwise: a small Qwen3, and its build."""
