-- The roles; made by an explicit call only, because roles belong to the whole server. What each may do is in the file
-- of its name in the folder beside this one.
DO $$
DECLARE
  wanted text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['punctual_admin', 'punctual_worker', 'punctual_execution', 'punctual_client',
    'punctual_reader'] LOOP
    IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = wanted) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        NULL; -- Somebody else made it just now.
      END;
    END IF;
  END LOOP;
END
$$;

REVOKE ALL ON SCHEMA punctual_internal FROM PUBLIC;
