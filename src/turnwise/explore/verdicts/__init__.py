"""Whether a draft is a task: its plan repeats, and nothing else earns its reward."""
