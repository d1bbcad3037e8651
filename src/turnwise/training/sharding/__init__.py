"""A policy's weights spread over several processes."""
