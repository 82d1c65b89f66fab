-- Keeps what a schedule was, before it is edited. A function, because SQL edits schedules as well.
SELECT punctual_internal.keep_version($1, $2)
