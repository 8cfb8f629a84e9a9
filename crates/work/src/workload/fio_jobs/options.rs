//! Which options of a job file have the effect they have in fio, which have none here, and what is
//! assumed in place of the others.

/// Options whose effect is that of fio.
const KNOWN: &[&str] = &[
    "rw",
    "readwrite",
    "bs",
    "blocksize",
    "size",
    "filesize",
    "nrfiles",
    "filename",
    "io_size",
    "io_limit",
    "loops",
    "numjobs",
    "iodepth",
    "fsync",
    "fdatasync",
    "sync",
    "end_fsync",
    "fsync_on_close",
    "rwmixread",
    "rwmixwrite",
    "runtime",
    "timeout",
    "time_based",
    "thinktime",
    "startdelay",
    "kb_base",
];

/// Options that shape fio's output, its set-up or its host, and not what is measured here.
const WITHOUT_EFFECT: &[&str] = &[
    "allow_file_create",
    "allrandrepeat",
    "bwavgtime",
    "clat_percentiles",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_fsync",
    "create_serialize",
    "description",
    "directory",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "disk_util",
    "eta",
    "fallocate",
    "filename_format",
    "gtod_cpu",
    "gtod_reduce",
    "group_reporting",
    "ioengine",
    "invalidate",
    "iopsavgtime",
    "lat_percentiles",
    "log_avg_msec",
    "loops_verify",
    "new_group",
    "nice",
    "norandommap",
    "numa_cpu_nodes",
    "overwrite",
    "percentile_list",
    "per_job_logs",
    "prio",
    "prioclass",
    "randrepeat",
    "randseed",
    "random_generator",
    "refill_buffers",
    "stonewall",
    "thread",
    "unified_rw_reporting",
    "unlink",
    "wait_for_previous",
    "write_bw_log",
    "write_hist_log",
    "write_iops_log",
    "write_lat_log",
    "zero_buffers",
    "scramble_buffers",
    "buffer_compress_percentage",
    "buffer_pattern",
    "group",
    "name",
    "hipri",
    "fixedbufs",
    "registerfiles",
    "sqthread_poll",
    "slat_percentiles",
    "unit_base",
    "idle_prof",
    "status-interval",
];

/// Options that are known to change what is measured, with what is assumed in their place.
const ASSUMED: &[(&str, &str)] = &[
    (
        "direct",
        "requests go through the page cache, because the file systems here have no O_DIRECT",
    ),
    ("verify", "content is compared once, at the end"),
    ("rate", "each job runs as fast as it can"),
    ("rate_iops", "each job runs as fast as it can"),
    ("random_distribution", "random places are equally likely"),
    ("bssplit", "all requests have the bytes of bs"),
    ("bsrange", "all requests have the bytes of bs"),
    ("ramp_time", "the run is measured from its beginning"),
    ("wait_for", "the job begins with the others"),
    ("zonemode", "the whole file is one zone"),
    ("iodepth_batch", ONE_BY_ONE),
    ("iodepth_batch_submit", ONE_BY_ONE),
    ("iodepth_batch_complete", ONE_BY_ONE),
    ("iodepth_batch_complete_min", ONE_BY_ONE),
    ("iodepth_batch_complete_max", ONE_BY_ONE),
    (
        "iodepth_low",
        "a request follows as soon as one has ended, whatever the depth",
    ),
    ("continue_on_error", "the first error fails the run"),
    ("create_only", "the job makes its requests, too"),
    ("exitall", "the other jobs go on when one has ended"),
    ("openfiles", "all files of a job are open at once"),
    ("file_service_type", "requests go to the files in turn"),
    (
        "softrandommap",
        "no place comes twice before all have come, unless norandommap is set",
    ),
];

/// What is assumed of fio's batches of requests.
const ONE_BY_ONE: &str = "requests are sent and awaited one by one, not in batches";

/// Names the options that have another effect in fio than here, with what is assumed.
pub(super) fn assume<'a>(
    given: impl Iterator<Item = (&'a str, &'a str)>,
    assumed: &mut Vec<String>,
) {
    for (name, value) in given {
        if KNOWN.contains(&name) || WITHOUT_EFFECT.contains(&name) {
            continue;
        }
        // A batch of one is what happens here anyway.
        let off = matches!(value, "0" | "none" | "null")
            || (name.starts_with("iodepth_batch") && value == "1");
        match ASSUMED.iter().find(|(known, _)| *known == name) {
            Some(_) if off => {}
            Some((_, instead)) => assumed.push(format!("{name}={value}: {instead}")),
            None => assumed.push(format!("{name}={value}: not known here, it was left out")),
        }
    }
}
