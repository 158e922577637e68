"""MindIE: its token API, TGI-style API and chat API."""
