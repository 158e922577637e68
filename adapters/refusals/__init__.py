"""Recognises what a vendor refuses: the operator's account, its model, or the request itself.

One table for all adapters. The circuit breaker stops using a backend because of a single refusal,
so a sign must be one that no client can cause: a status or code that vendors use for nothing else,
or the beginning of a message, because vendors put what the client sent behind their own words.
"""
