SELECT section(path) AS section, price_band(cents) AS band, count(*) AS clicks, geometric_mean(cents) AS typical
FROM clicks
GROUP BY section(path), price_band(cents), window(ts, '60 seconds')
ORDER BY clicks DESC, section, band
