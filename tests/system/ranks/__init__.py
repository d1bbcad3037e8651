"""Tests of turnwise.system.ranks and of training by several processes."""
