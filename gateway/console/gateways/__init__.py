"""The gateways that share a store, and the engines of this one, for operators."""
