-- A page of jobs: the ids that one of the `scan` statements finds, checked one by one.
SELECT s.id FROM (
