"""The REST APIs of a worker.

Start with `siddhiapps.routes`; `application.make_routes` puts the paths of a server together.
"""
