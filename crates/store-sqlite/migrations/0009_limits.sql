-- Limits: how many jobs run at once and how many start in a while, for everything, a queue, a job type or a tag.
--
-- What runs is counted in `punctual_running`; only what is in the bucket of a rate is kept here, in units of which a job
-- costs `rate_per_us` and every microsecond brings `rate_jobs`.
CREATE TABLE punctual_limits (
  scope TEXT NOT NULL CHECK (scope IN ('all', 'queue', 'type', 'tag')),
  name TEXT NOT NULL CHECK ((scope = 'all') = (name = '')),
  concurrency INTEGER CHECK (concurrency >= 0),
  node_concurrency INTEGER CHECK (node_concurrency >= 0),
  rate_jobs INTEGER CHECK (rate_jobs > 0),
  rate_per_us INTEGER CHECK (rate_per_us > 0),
  rate_burst INTEGER CHECK (rate_burst > 0),
  level INTEGER CHECK (level >= 0),
  level_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (scope, name),
  CHECK (concurrency IS NOT NULL OR node_concurrency IS NOT NULL OR rate_jobs IS NOT NULL),
  CHECK ((rate_jobs IS NULL) = (rate_per_us IS NULL) AND (rate_jobs IS NULL) = (rate_burst IS NULL)
    AND (rate_jobs IS NULL) = (level IS NULL) AND (rate_jobs IS NULL) = (level_at IS NULL))
) STRICT, WITHOUT ROWID;
