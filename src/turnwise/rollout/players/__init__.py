"""Who plays an episode: the policy in training, or a model behind an endpoint."""
