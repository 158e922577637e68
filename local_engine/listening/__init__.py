"""The engine on TCP: its listener, mutual TLS, and which gateways may connect."""
