"""Prompts: the language of templates, their files, and what experiments name of them."""
