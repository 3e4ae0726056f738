"""Which jobs stand in one ring: each is started by an end of another. Imports nothing of ours."""


def leading_back(job_id, sources):
    """Of those who wait for this job's ends: whose own lead to it. ``sources``: by job, for whose ends it waits."""
    before, ahead = set(), [job_id]
    while ahead:
        for each in sources.get(ahead.pop(), ()):
            if each not in before:
                before.add(each)
                ahead.append(each)
    return {each for each in before if job_id in sources.get(each, ())}
