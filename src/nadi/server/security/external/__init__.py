"""Users of an identity provider: OAuth2 for logins and tokens, OpenID Connect for logins on its pages, SCIM2 for users and roles.

Start with `provider`.
"""
