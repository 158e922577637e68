"""`strowger import litellm`: translate the configuration of a LiteLLM proxy."""
