-- Finds the functions that a name can mean, by SQL's own rules for names, and what calling each of them would take.
--
-- The name is a value here, never a part of a statement: what is called afterwards is the name that the catalog holds,
-- quoted by the database. A name without a schema is looked for along the search path, without its implicit parts.
WITH named AS (
  SELECT parse_ident($1::text) AS parts
), places AS (
  SELECT namespace.oid, namespace.nspname, place.ordinal
  FROM named
  CROSS JOIN LATERAL unnest(
    CASE cardinality(named.parts)
      WHEN 1 THEN current_schemas(false)::text[]
      WHEN 2 THEN named.parts[1:1]
      ELSE '{}'::text[]
    END
  ) WITH ORDINALITY AS place (name, ordinal)
  JOIN pg_catalog.pg_namespace AS namespace ON namespace.nspname = place.name
)
SELECT
  quote_ident(places.nspname),
  quote_ident(function.proname),
  pg_catalog.pg_get_function_identity_arguments(function.oid),
  CASE WHEN function.proretset THEN 'setof ' ELSE '' END || coalesce(pg_catalog.format_type(function.prorettype, NULL), ''),
  function.prokind = 'f' AND NOT function.proretset AND function.prorettype = 'pg_catalog.jsonb'::regtype,
  CASE
    WHEN function.pronargs - function.pronargdefaults <= 1
      AND function.pronargs >= 1 AND function.proargtypes[0] = 'pg_catalog.jsonb'::regtype THEN 1
    WHEN function.pronargs = function.pronargdefaults THEN 0
    ELSE -1
  END AS takes,
  has_schema_privilege(places.oid, 'USAGE') AND has_function_privilege(function.oid, 'EXECUTE')
FROM named
CROSS JOIN places
JOIN pg_catalog.pg_proc AS function
  ON function.pronamespace = places.oid AND function.proname = named.parts[cardinality(named.parts)]
ORDER BY places.ordinal, takes DESC, function.oid
