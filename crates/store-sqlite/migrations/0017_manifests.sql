-- Manifests: which things one has made or taken over, whose manifest that was, and what it said of each.
CREATE TABLE punctual_managed_things (
  kind TEXT NOT NULL CHECK (kind IN ('calendar', 'preset', 'template', 'queue', 'limit', 'channel', 'rule', 'flow',
                                     'schedule')),
  name TEXT NOT NULL,
  owner TEXT NOT NULL,
  definition TEXT NOT NULL CHECK (json_valid(definition)),
  applied_at INTEGER NOT NULL,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX punctual_managed_things_owner ON punctual_managed_things (owner, kind, name);
