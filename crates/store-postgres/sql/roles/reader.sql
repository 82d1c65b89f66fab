-- `punctual_reader` looks at the public views, and changes nothing.
GRANT USAGE ON SCHEMA punctual TO punctual_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA punctual TO punctual_reader;
