"""Schedules of others, read: a crontab, a Celery beat schedule, Kubernetes CronJobs become job documents.

Pure: text in, drafts and remarks out; nothing that is read is executed. What must hold: every entry of a file becomes
a draft, or a remark says that it was left out; every part of an entry that its draft does not carry has a remark; the
same file gives the same names, so that importing it again changes the same jobs.
"""
