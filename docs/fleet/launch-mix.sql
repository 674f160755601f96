-- What the fleet launches: kernels and graphs by their number, over all pods. Launches that went
-- into a graph under capture (flag 9, bit value 512) ran nothing.
SELECT
    coalesce(kernel_short, kernel_name, api) AS work,
    count(*) AS launches,
    count(DISTINCT pod) AS pods,
    round(100.0 * count(*) / sum(count(*)) OVER (), 2) AS percent
FROM events
WHERE kind = 'call'
    AND (family = 'launch' OR api IN ('cudaGraphLaunch', 'cuGraphLaunch'))
    AND mod(CAST(floor(flags / 512) AS INTEGER), 2) = 0
GROUP BY coalesce(kernel_short, kernel_name, api)
ORDER BY launches DESC, work
LIMIT 50
