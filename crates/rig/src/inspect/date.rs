//! Times of a volume in words.

use chrono::{DateTime, SecondsFormat};

/// Seconds and nanoseconds since 1970 as a date of UTC by RFC 3339; what no date can be made of
/// stays a number.
pub fn date(secs: i64, nanos: u32) -> String {
    in_form(secs, nanos, SecondsFormat::Nanos)
}

fn in_form(secs: i64, nanos: u32, form: SecondsFormat) -> String {
    let at = DateTime::from_timestamp(secs, nanos);
    at.map_or_else(
        || format!("{secs}.{nanos:09} s since 1970"),
        |at| at.to_rfc3339_opts(form, true),
    )
}

/// As [`date`], of a time that is 0 if it never was.
pub(super) fn moment(secs: u64) -> String {
    match secs {
        0 => "never".into(),
        secs => in_form(
            i64::try_from(secs).unwrap_or(i64::MAX),
            0,
            SecondsFormat::Secs,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(date(1_704_067_200, 0), "2024-01-01T00:00:00.000000000Z");
        assert_eq!(moment(1_704_067_200), "2024-01-01T00:00:00Z");
        assert_eq!(date(-1, 5), "1969-12-31T23:59:59.000000005Z");
        assert_eq!(
            date(i64::MAX, 0),
            format!("{}.000000000 s since 1970", i64::MAX)
        );
        assert_eq!(moment(0), "never");
    }
}
