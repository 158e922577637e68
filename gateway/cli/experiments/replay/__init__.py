"""`strowger experiments replay`: logged prompts to two arms of a running gateway."""
