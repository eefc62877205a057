"""The engine's arguments, under the module paths of the official package."""
