"""The MindIE surface."""
