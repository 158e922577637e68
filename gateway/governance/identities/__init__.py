"""Callers with tokens of identity providers: their keys, their signatures, their claims."""
