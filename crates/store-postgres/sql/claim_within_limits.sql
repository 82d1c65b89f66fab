-- Hands out jobs as `claim_jobs` does, as far as the limits have room: how many each lane may give is decided by
-- `claim_quotas`, which keeps everybody else who claims under the same limits waiting until the transaction is done.
WITH clock AS MATERIALIZED (
  SELECT coalesce($1, now()) AS at
), decided AS MATERIALIZED (
  SELECT q.* FROM clock
  CROSS JOIN punctual_internal.claim_quotas(clock.at, $2::text[], $3::text[], $4, $5, $7::bigint) AS q
), quotas AS MATERIALIZED (
  SELECT lane AS lane_id, quota AS jobs FROM decided WHERE lane IS NOT NULL
), lease AS MATERIALIZED (
  SELECT lease_holds AS holds, limits_exist AS limited, more_in_us FROM decided WHERE lane IS NULL
