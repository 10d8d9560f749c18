"""Adapters for agent frameworks. Import the one that you need: none is imported with `countersign`."""
