"""Module paths of the official package's compiled part."""
