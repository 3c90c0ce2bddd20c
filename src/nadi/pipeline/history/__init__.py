"""The past made again: replays of an app from its logs without Spark, and runs of an app over files.

Start with `replay`: it is the one principle as a program.
"""
