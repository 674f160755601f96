-- How much of what PyTorch holds it cannot hand out, by model: reserved less allocated bytes of
-- each process and device, when most was reserved and when the process was seen last. The model is
-- what follows `--model` or `serve` on the command line.
SELECT
    model,
    count(DISTINCT pod) AS pods,
    count(*) AS allocators,
    max(most_reserved) AS most_reserved_bytes,
    round(avg(share_at_most), 4) AS unused_share_at_most,
    round(avg(share_at_last), 4) AS unused_share_at_last
FROM (
    SELECT
        coalesce(
            nullif(regexp_extract(process_command, '(--model[= ]|serve )([^ ]+)', 2), ''),
            process_title
        ) AS model,
        pod,
        max(most_reserved) AS most_reserved,
        max(CASE WHEN reserved = most_reserved THEN unused_share END) AS share_at_most,
        max(CASE WHEN time = last_time THEN unused_share END) AS share_at_last
    FROM (
        SELECT
            pod,
            host,
            pid,
            device,
            process_command,
            process_title,
            time,
            reserved,
            1 - CAST(allocated AS DOUBLE) / CAST(reserved AS DOUBLE) AS unused_share,
            max(reserved) OVER (
                PARTITION BY pod, host, pid, device, process_command, process_title
            ) AS most_reserved,
            max(time) OVER (
                PARTITION BY pod, host, pid, device, process_command, process_title
            ) AS last_time
        FROM events
        WHERE reserved > 0
    ) AS reports
    GROUP BY pod, host, pid, device, process_command, process_title
) AS allocators
GROUP BY model
ORDER BY unused_share_at_last DESC, model
