-- Whether a lease holds; and if it does, nobody ends it and no queue is paused or reserved before this claim is done.
SELECT pg_advisory_xact_lock_shared($3) FROM punctual_internal.leases
WHERE node_id = $1 AND lease_id = $2
FOR KEY SHARE
