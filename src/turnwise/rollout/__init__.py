"""Plays tasks: one episode at a time, or whole groups of them side by side."""
