"""jaxrl_reason: reinforcement learning of language-model reasoning, as compositions of small pure parts."""
