"""The request path between the server and the surfaces."""
