"""Support vector machines on top of a network."""
