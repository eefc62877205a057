"""How programs enter: the class LLM."""
