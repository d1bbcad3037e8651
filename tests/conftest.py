"""Set before torch is imported: no hub, and threads that wait give their core to the servers under test."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Threads that spin at every barrier make the same work take up to ten times as long on a shared machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
