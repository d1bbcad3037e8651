"""A plan executed twice earns 1, and the cheats that must earn nothing: what makes a task verified."""
