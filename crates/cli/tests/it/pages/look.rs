//! What a browser says of a page at some widths.

use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

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
  // What is drawn outside of the frame of its plot cannot be seen.
  const cut = texts.filter(t => {
    const [own, frame] = [t.getBoundingClientRect(), t.ownerSVGElement.getBoundingClientRect()];
    const hidden = t.getAttribute('opacity') === '0' || getComputedStyle(t).opacity === '0';
    return !hidden && t.textContent && own.width > 0 && (own.right > frame.right + 2 || own.left < frame.left - 2);
  }).map(t => t.textContent);
  const labels = p => [...p.querySelectorAll('svg .role-legend-label text')].map(t => t.textContent);
  const bars = p => [...p.querySelectorAll('svg .role-axis-label text')].map(t => t.textContent);
  const kinds = p => [...new Set([...p.querySelectorAll('svg .role-mark')]
    .filter(m => m.querySelector('path')|| m.querySelector('line')).map(m => m.classList[0].replace('mark-', '')))].sort();
  const figures = plots.map(p => ({
    title: p.getAttribute('aria-label'),
    caption: p.querySelector('figcaption').textContent,
    kinds: kinds(p),
    legend: labels(p).length,
    published: [...labels(p), ...bars(p)].some(t => t.startsWith('published') || t.includes(', publ')),
  }));
  const cells = r => [...r.cells].map(c => c.textContent.trim());
  const parts = [...document.querySelectorAll('h1, h2, h3, summary, figure.plot, table')].filter(e => e.tagName === 'FIGURE' || !e.closest('figure'))
    .map(e => e.tagName === 'FIGURE' ? { figure: plots.indexOf(e) }
      : e.tagName === 'TABLE' ? { table: e.tHead ? cells(e.tHead.rows[0]) : [] }
      : { [e.tagName.toLowerCase()]: e.textContent.trim() });
  parent.postMessage(JSON.stringify({
    width: innerWidth, page: root.scrollWidth, beyond, cut, plots: plots.length, figures, parts,
    drawn: plots.filter(p => p.dataset.drawn === 'yes').length,
    marks: plots.map(p => p.querySelectorAll('svg .role-mark path, svg .role-mark line').length),
    smallest: Math.min(99, ...texts.map(size)),
    headings: document.querySelectorAll('h1').length,
    headless: document.querySelectorAll('th:not([scope])').length,
  }), '*');
})();
</script>";

/// What a browser says of the page in a frame of each of these widths. It begins once for all of
/// them, since its begin takes longer than the look.
pub fn look<const N: usize>(page: &Path, widths: [u32; N]) -> [Value; N] {
    let dir = tempfile::tempdir().unwrap();
    let probed = dir.path().join("page.html");
    let text = fs::read_to_string(page).unwrap();
    fs::write(&probed, text.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    let around = dir.path().join("around.html");
    fs::write(&around, frames(&widths)).unwrap();
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
    // The DOM is dumped as markup.
    let title = title.replace("&lt;", "<").replace("&gt;", ">");
    let title = title.replace("&nbsp;", " ").replace("&amp;", "&");
    let seen: Vec<Value> =
        serde_json::from_str(&title).unwrap_or_else(|e| panic!("{}: {e}: {title}", page.display()));
    seen.try_into()
        .unwrap_or_else(|seen| panic!("{}: {seen:?}", page.display()))
}

/// A page with one frame for each width, since no window of a browser is as narrow as a phone's.
/// What the frames say becomes its title, in the order of the frames.
fn frames(widths: &[u32]) -> String {
    const COLLECT: &str = "const said = [];
        onmessage = e => {
          const frames = [...document.querySelectorAll('iframe')];
          said[frames.findIndex(f => f.contentWindow === e.source)] = e.data;
          if (said.filter(s => s).length === frames.length) document.title = `[${said.join()}]`;
        }";
    let frame = |width| {
        format!("<iframe width={width} height=2000 style='border:0' src=page.html></iframe>")
    };
    let frames: String = widths.iter().map(frame).collect();
    format!("<title></title><script>{COLLECT}</script>{frames}")
}

/// The headings, figures and tables of a page, a line each. No figure that was measured is in it.
pub fn structure(seen: &Value) -> String {
    let (mut lines, mut of_findings) = (String::new(), false);
    for part in seen["parts"].as_array().into_iter().flatten() {
        let (kind, value) = part.as_object().unwrap().iter().next().unwrap();
        if kind == "h2" {
            of_findings = value == "Findings";
        } else if of_findings {
            // What was found is content.
            continue;
        }
        let line = match kind.as_str() {
            "figure" => figure(&seen["figures"][value.as_u64().unwrap() as usize]),
            "table" => {
                let head = value.as_array().unwrap().iter();
                let head: Vec<&str> = head.filter_map(Value::as_str).collect();
                format!("table: {}", head.join(" | "))
            }
            _ => format!("{kind}: {}", without_numbers(value.as_str().unwrap())),
        };
        writeln!(lines, "{line}").unwrap();
    }
    lines
}

fn figure(of: &Value) -> String {
    let kinds = of["kinds"].as_array().unwrap().iter();
    let kinds: Vec<&str> = kinds.filter_map(Value::as_str).collect();
    let published = match of["published"] == true {
        true => ", with published values",
        false => "",
    };
    format!(
        "figure: {} ({}; {} in the legend{published})",
        of["title"].as_str().unwrap(),
        kinds.join(" "),
        of["legend"]
    )
}

/// A heading that counts what was measured stays the same if the count changes.
fn without_numbers(text: &str) -> String {
    let mut shown = String::new();
    for word in text.split(' ') {
        let number = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
        shown += if number { "N" } else { word };
        shown.push(' ');
    }
    shown.trim_end().into()
}
