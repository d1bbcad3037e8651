"""What the commands do, except `train`, `view`, `doctor` and `eval`, which have packages of their own."""
