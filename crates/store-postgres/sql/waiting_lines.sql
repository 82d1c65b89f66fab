-- The channels in whose lines something waits: one step of the index for each.
WITH RECURSIVE lines (channel) AS (
  (SELECT channel FROM punctual_internal.deliveries WHERE state = 'waiting' ORDER BY channel LIMIT 1)
  UNION ALL
  SELECT (SELECT d.channel FROM punctual_internal.deliveries AS d
          WHERE d.state = 'waiting' AND d.channel > lines.channel ORDER BY d.channel LIMIT 1)
  FROM lines WHERE lines.channel IS NOT NULL
)
SELECT channel FROM lines WHERE channel IS NOT NULL
