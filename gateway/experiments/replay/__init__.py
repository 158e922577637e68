"""Replay: logged prompts to two arms, and which answers are better."""
