"""The user's side of a conversation, played by a script or a model."""
