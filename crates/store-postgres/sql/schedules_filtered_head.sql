-- A page of schedules: the names that a `scan` statement finds, checked one by one.
FROM (
