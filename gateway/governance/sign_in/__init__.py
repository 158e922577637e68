"""Sign in to /admin with an identity provider: OpenID Connect, code flow with PKCE."""
