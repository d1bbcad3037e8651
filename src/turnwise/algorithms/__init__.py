"""The mathematics of learning: pure functions on plain values and tensors, one registration dict a seam.

Axes in names: N groups, G members of a group, K turns, B rows (one sample each), T tokens, V vocabulary.
"""
