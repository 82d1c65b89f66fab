-- Manifests: which things one has made or taken over, whose manifest that was, and what it said of each.
CREATE TABLE punctual_internal.managed_things (
  kind text COLLATE "C" NOT NULL CHECK (kind IN ('calendar', 'preset', 'template', 'queue', 'limit', 'channel', 'rule',
                                                 'flow', 'schedule')),
  name text COLLATE "C" NOT NULL,
  owner text COLLATE "C" NOT NULL,
  definition json NOT NULL,
  applied_at timestamptz NOT NULL,
  PRIMARY KEY (kind, name)
);
CREATE INDEX managed_things_owner ON punctual_internal.managed_things (owner, kind, name);
