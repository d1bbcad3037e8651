"""The value head: a linear layer on the hidden state before every own token."""

import torch
from torch import Tensor, nn


class ValueHead(nn.Module):
    """One linear layer in fp32, initialised to 0: a value of 0 leaves advantages unchanged."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, 1, dtype=torch.float32)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, hidden_ND: Tensor) -> Tensor:
        weight = self.linear.weight
        values: Tensor = self.linear(hidden_ND.to(weight.dtype))
        return values.squeeze(-1)
