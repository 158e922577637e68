"""The description of the API at /openapi.json: what is sent on each route, and what is answered."""
