"""The one page at ``/``: data files, served as they are."""
