"""Tests of turnwise.distributed and of training by several processes."""
