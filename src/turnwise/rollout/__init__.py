"""Rollouts: play single episodes, and collect groups of episodes concurrently."""
