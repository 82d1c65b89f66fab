-- Of what a dead-man's switch was told the latest few are kept.
DELETE FROM punctual_deliveries WHERE channel = ?1 AND occasion = 'well' AND state <> 'waiting' AND id NOT IN (
  SELECT id FROM punctual_deliveries WHERE channel = ?1 AND occasion = 'well' AND state <> 'waiting'
  ORDER BY id DESC LIMIT 20)
