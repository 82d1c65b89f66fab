-- Those in one state, the latest first.
--
-- Differs from SQLite: the range is written so that only the index by state is in its order. With `state = $3` a plan for
-- any state goes down the ids instead, and passes by all that has arrived to find the few that have not.
WHERE (state, id) < ($3, $1) AND state >= $3 ORDER BY state DESC, id DESC LIMIT $2
