"""The playground: a form that sends requests as any client does, to two models side by side."""
