"""The mathematics of learning: pure functions on plain values and tensors, registered by name in dicts.

Axes in names: N groups, G members of a group, K turns, B rows (one sample each), T tokens, V vocabulary.
"""
