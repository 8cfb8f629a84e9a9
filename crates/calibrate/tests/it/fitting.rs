//! What a fit does with measurements that contradict each other, that are few, or that the template
//! cannot explain.

use crate::known::seen;
use ctrl::Profile;
use toml::Value;
use varve_calibrate::{Estimate, FitError, Given, Probe, Seen, fit};

fn loop_like() -> String {
    Profile::text_of("loop-like").unwrap()
}

fn found(fit: &varve_calibrate::Fit, field: &str) -> f64 {
    let f = fit.fitted.iter().find(|f| f.field.ends_with(field));
    f.unwrap_or_else(|| panic!("{field}: {:?}", fit.assumed))
        .value
}

#[test]
fn one_measurement_that_contradicts_all_others_is_left_out_and_said() {
    let mut seen = seen("loop-like,timing.buffered-file.flush_us=900", 64 << 20);
    let flush = Probe::Flush { kib: 16 };
    let long = seen[&flush].us * 5.0;
    seen.insert(
        flush,
        Estimate {
            us: long,
            low: long,
            high: long,
            samples: 9,
        },
    );
    let fit = fit(&loop_like(), &[], &seen).unwrap();
    let left_out: Vec<Probe> = fit
        .checks
        .iter()
        .filter(|c| c.left_out)
        .map(|c| c.probe)
        .collect();
    assert_eq!(left_out, [flush]);
    assert!(
        (found(&fit, "flush_us") / 900.0 - 1.0).abs() < 0.02,
        "{:?}",
        fit.fitted
    );
}

#[test]
fn noise_widens_the_intervals_and_they_contain_the_truth() {
    let mut seen = seen("loop-like,timing.buffered-file.per_kib_us=2.0", 64 << 20);
    let mut rng = base::Rng::named(3, "noise");
    for e in seen.values_mut() {
        e.us *= 0.97 + rng.below(600) as f64 / 10_000.0;
        (e.low, e.high) = (e.us * 0.97, e.us * 1.03);
    }
    let fit = fit(&loop_like(), &[], &seen).unwrap();
    let per_kib = fit
        .fitted
        .iter()
        .find(|f| f.field.ends_with("per_kib_us"))
        .unwrap();
    assert!((per_kib.low..=per_kib.high).contains(&2.0), "{per_kib:?}");
    assert!(per_kib.high - per_kib.low > 0.01, "{per_kib:?}");
}

#[test]
fn what_a_register_says_is_not_fitted() {
    let given = [Given {
        field: "card.cache_kib".into(),
        value: Value::Integer(1024),
        from: "a test".into(),
    }];
    let text = Profile::text_of("emmc-odroid-xu4").unwrap();
    let fit = fit(
        &text,
        &given,
        &seen("emmc-odroid-xu4,card.cache_kib=1024", 256 << 20),
    )
    .unwrap();
    assert!(fit.fitted.iter().all(|f| f.field != "card.cache_kib"));
    assert!(fit.assumed.iter().all(|a| a.field != "card.cache_kib"));
    assert!(fit.miss() < 0.05, "{:?}", fit.checks);
}

#[test]
fn a_device_faster_than_the_assumed_chips_takes_them_into_the_fit() {
    // Chips of 300 us instead of 800: flush and reliable write alone cannot become so short.
    let fast = "emmc-odroid-xu4,nand.timing.program_us=300,timing.fig8.flush_us=20,timing.fig8.reliable_us=10";
    let text = Profile::text_of("emmc-odroid-xu4").unwrap();
    let fit = fit(&text, &[], &seen(fast, 256 << 20)).unwrap();
    let chips = found(&fit, "program_us");
    assert!((200.0..400.0).contains(&chips), "{:?}", fit.fitted);
    assert!(fit.miss() < 0.06, "{}", fit.miss());
}

#[test]
fn too_little_is_an_error_and_so_is_a_value_that_no_card_has() {
    let one: Seen = seen("loop-like", 64 << 20).into_iter().take(3).collect();
    let few = fit(&loop_like(), &[], &one).unwrap_err();
    assert!(matches!(few, FitError::TooLittle(3)), "{few}");
    let given = [Given {
        field: "max_transfer_kib".into(),
        value: Value::Integer(0),
        from: "a test".into(),
    }];
    let wrong = fit(&loop_like(), &given, &seen("loop-like", 64 << 20)).unwrap_err();
    assert!(wrong.to_string().contains("max_transfer_kib"), "{wrong}");
}
