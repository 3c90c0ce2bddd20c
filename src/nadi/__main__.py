"""`python -m nadi`."""

from nadi.cli import main

main()
