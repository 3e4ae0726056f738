"""Clusters that are somebody's own: what Waterclock needs there, and whether it is there.

``plan.py`` says what is needed (pure), ``render.py`` writes it in other people's forms, ``making.py`` makes what is
missing and never changes what stands; ``doctor_kafka.py`` and ``doctor_cassandra.py`` look and judge, and write
nothing.
"""
