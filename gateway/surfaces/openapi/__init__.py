"""The API description at /openapi.json: request and response bodies of each route."""
