"""Why a request goes where it goes: what is told before it is sent, and what is kept after."""
