"""Revisions of running apps, and restores: an app goes on from a revision, changed or not.

Start with `revisions.Revisions`, and with `restore` for the way back.
"""
