//! Every kind of page in a browser, as wide as a desk's screen and as a phone's: all plots are
//! drawn, their text can be read, and nothing goes beyond the screen.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use crate::program::{command, words};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const WIDTHS: [u32; 2] = [1280, 375];
/// Smallest text that counts as legible, pixels of CSS.
const TEXT_MIN_PX: f64 = 11.0;

/// Sends what it finds to the page around it when all plots are drawn.
const PROBE: &str = r"<script>
(function look() {
  const root = document.documentElement;
  const plots = [...document.querySelectorAll('figure.plot')];
  if (plots.length > 0 && root.dataset.drawn !== 'all') return setTimeout(look, 50);
  const beyond = [...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && !e.closest('svg'))
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + ' ' + e.className);
  const texts = plots.flatMap(p => [...p.querySelectorAll('svg text')]);
  const size = t => parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getBoundingClientRect().width / t.ownerSVGElement.viewBox.baseVal.width;
  parent.postMessage(JSON.stringify({
    width: innerWidth, page: root.scrollWidth, beyond, plots: plots.length,
    drawn: plots.filter(p => p.dataset.drawn === 'yes').length,
    marks: plots.map(p => p.querySelectorAll('svg .role-mark path, svg .role-mark line').length),
    smallest: Math.min(99, ...texts.map(size)),
    headings: document.querySelectorAll('h1').length,
  }), '*');
})();
</script>";

/// What a browser of this width says of the page.
fn look(page: &Path, width: u32) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let probed = dir.path().join("page.html");
    let text = fs::read_to_string(page).unwrap();
    fs::write(&probed, text.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    // No window of a browser is as narrow as a phone's, a frame in it can be.
    let frame = format!(
        "<title></title><script>onmessage = e => document.title = e.data</script><iframe width={width} height=2000 style='border:0' src=page.html></iframe>"
    );
    let around = dir.path().join("around.html");
    fs::write(&around, frame).unwrap();
    let out = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ])
        .arg(format!(
            "--user-data-dir={}",
            dir.path().join("profile").display()
        ))
        .arg("--window-size=1400,2100")
        .args(["--virtual-time-budget=60000", "--dump-dom"])
        .arg(format!("file://{}", around.display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let title = text
        .split("<title>")
        .nth(1)
        .and_then(|t| t.split("</title>").next());
    let title =
        title.unwrap_or_else(|| panic!("no title: {}", String::from_utf8_lossy(&out.stderr)));
    serde_json::from_str(title).unwrap_or_else(|e| panic!("{}: {e}: {title}", page.display()))
}

fn check(page: &Path, plots: u64) {
    assert!(page.is_file(), "{}", page.display());
    let seen = WIDTHS.map(|width| look(page, width));
    for (of, width) in seen.iter().zip(WIDTHS) {
        let name = page.display();
        assert_eq!(of["width"], width, "{name}: {of}");
        assert!(
            of["page"].as_u64() <= Some(u64::from(width)),
            "{name}: wider than the screen: {of}"
        );
        assert_eq!(of["beyond"], serde_json::json!([]), "{name} at {width}");
        assert!(of["plots"].as_u64() >= Some(plots), "{name}: {of}");
        assert_eq!(of["drawn"], of["plots"], "{name}: {of}");
        assert!(of["smallest"].as_f64() >= Some(TEXT_MIN_PX), "{name}: {of}");
        assert_eq!(of["headings"], 1, "{name}");
        let marks = of["marks"].as_array().unwrap();
        assert!(
            marks.iter().all(|n| n.as_u64() > Some(0)),
            "{name}: a plot without marks: {of}"
        );
    }
    assert_eq!(
        seen[0]["marks"],
        seen[1]["marks"],
        "{}: not the same plots",
        page.display()
    );
}

fn made(dir: &Path, name: &str, args: &[&str]) -> PathBuf {
    let out = dir.join(name);
    let done = command().args(args).arg("--out").arg(&out).output();
    let done = done.unwrap();
    assert!(done.status.code() <= Some(1), "{args:?}: {}", words(&done));
    out.join("index.html")
}

#[test]
fn a_comparison_is_drawn_on_desk_and_phone() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "compare",
        "--workload",
        "sqlite:insert=20,update=0,delete=0",
    ];
    check(&made(dir.path(), "compare", &args), 10);
}

#[test]
fn papers_are_drawn_on_desk_and_phone() {
    let dir = tempfile::tempdir().unwrap();
    check(
        &made(
            dir.path(),
            "jftl",
            &["paper", "jftl", "--quick", "--only", "fig7a,fig8a,counts"],
        ),
        6,
    );
    check(
        &made(
            dir.path(),
            "emmc",
            &["paper", "emmc", "--quick", "--only", "fig13"],
        ),
        2,
    );
}

#[test]
fn findings_are_drawn_on_desk_and_phone() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "crash",
        "--workload",
        "ace:1,every=40",
        "--schemes",
        "none",
        "--states",
        "8",
    ];
    check(&made(dir.path(), "crash", &args), 0);
}
