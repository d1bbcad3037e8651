"""turnwise's episodes inside SkyRL's trainer: docs/scaling.md has the whole picture.

recipe ─ translation ─▶ SkyRL's config ─▶ experiment ─▶ SkyRL's trainer on Ray
                                             │ get_generator
Task ─ generator ─▶ Order ─ player(s) ─▶ Group ─ rows ─▶ GeneratorOutput
                              │ rollout/, mcp/, rewards/ as everywhere else
                              └ engine ─▶ SkyRL's inference client (vLLM)
"""
