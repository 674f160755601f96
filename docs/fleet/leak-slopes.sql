-- Whose device memory grows, and how fast: for each process the slope of a line through the lowest
-- live bytes of each second. The floor is what matters: a program that works takes memory and gives
-- it back, one that leaks gives back less than it took. `fit` near 1: it grows steadily.
SELECT
    pod,
    host,
    pid,
    process_title,
    count(*) AS seconds,
    max(floor_bytes) AS highest_floor_bytes,
    round(regr_slope(floor_bytes, second), 3) AS bytes_per_second,
    round(regr_r2(floor_bytes, second), 3) AS fit
FROM (
    SELECT
        pod,
        host,
        pid,
        process_title,
        floor(CAST(ts AS DOUBLE) / 1e9) AS second,
        CAST(min(live_bytes) AS DOUBLE) AS floor_bytes
    FROM events
    WHERE live_bytes IS NOT NULL
    GROUP BY pod, host, pid, process_title, floor(CAST(ts AS DOUBLE) / 1e9)
) AS floors
GROUP BY pod, host, pid, process_title
HAVING count(*) > 2
ORDER BY bytes_per_second DESC, pod, pid
LIMIT 20
