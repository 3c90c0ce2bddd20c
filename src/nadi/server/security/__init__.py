"""Who may do what on a worker."""
