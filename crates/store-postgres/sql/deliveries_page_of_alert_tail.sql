-- Those of one alert, the latest first.
WHERE alert_id = $3 AND id < $1 ORDER BY id DESC LIMIT $2
