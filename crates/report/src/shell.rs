//! What every page has: head, style, and the programs that draw its plots. A page holds all of it,
//! so that it can be kept and mailed as one file.

use super::plot::SCRIPTS;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style of every page: the reader's light or dark colours, and one column on a narrow screen,
/// where a row of a table is a card (`table.cards`), and other wide tables move sideways in a frame
/// of their own.
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d5dae0;--dim:#57606a;--code:#f1f3f5;--link:#0550ae;\
--good:#1a6f37;--bad:#b3261e;--lost:#fde8e6;--kept:#e7f5ea;--promise:#fff3cd}\
@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--paper:#14171a;--line:#3d444d;--dim:#9aa4af;--code:#22272e;--link:#79b8ff;\
--good:#56c271;--bad:#ff8a80;--lost:#4a1f1c;--kept:#173a22;--promise:#46390f}}\
body{font:15px/1.45 system-ui,sans-serif;max-width:78rem;margin:2rem auto;padding:0 1rem;color:var(--ink);background:var(--paper)}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}a{color:var(--link)}p,li,summary,td.text{overflow-wrap:anywhere}\
table{border-collapse:collapse;margin:.6rem 0}.scroll{overflow-x:auto}\
th,td{padding:.25rem .55rem;border-bottom:1px solid var(--line);text-align:right}th:first-child,td:first-child{text-align:left}\
td{white-space:nowrap}tbody th{font-weight:normal;white-space:nowrap}tbody th.text{white-space:normal;min-width:14rem}thead th{border-bottom:2px solid var(--dim)}p.note{color:var(--dim);margin:.3rem 0}\
code{background:var(--code);padding:0 .25rem;overflow-wrap:anywhere}\
p.verdict{font-size:1.05rem}nav ul{columns:2;padding-left:1.1rem}@media(max-width:40rem){nav ul{columns:1}}details{margin:.5rem 0}figure{margin:1.2rem 0}figure.plot .chart{width:100%;min-height:2rem}summary{cursor:pointer}\
:focus-visible{outline:2px solid var(--link);outline-offset:2px}\
@media(max-width:40rem){table.cards thead{display:none}table.cards,table.cards tbody,table.cards tr,table.cards th,table.cards td{display:block;text-align:left;white-space:normal}\
table.cards th,table.cards td{border:0;padding:.1rem 0}table.cards tbody th{font-weight:600}table.cards td:empty{display:none}table.cards tr:has(th){border-top:1px solid var(--line);margin-top:.5rem}\
table.cards td[data-head]::before{content:attr(data-head) \": \";color:var(--dim)}}\
.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}.dim{color:var(--dim)}";

/// A page with this title and body; `style` is what it has beyond every page's.
pub fn whole(title: &str, style: &str, body: &Markup) -> String {
    let has_plots = body.0.contains("<figure class=\"plot\"");
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body {
                main { (body) }
                @if has_plots { @for script in SCRIPTS { script { (PreEscaped(script)) } } }
            }
        }
    };
    page.into_string()
}

/// A table that moves sideways where the screen is narrow.
pub fn scrolled(table: &Markup) -> Markup {
    html! { div.scroll tabindex="0" { (table) } }
}

/// A row of a table, which is headed by its first cell.
pub fn row(cells: &[String]) -> Markup {
    html! { tr { @for (n, cell) in cells.iter().enumerate() {
        @if n == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
    } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::grouped_bars;

    #[test]
    fn only_a_page_with_plots_carries_the_programs_that_draw() {
        let plain = whole("<t>", "", &html! { p { "words" } });
        assert!(plain.contains("<title>&lt;t&gt;</title>") && !plain.contains("<script"));
        let plot = grouped_bars("p", "s", &["g".into()], &[("s".into(), vec![1.0])]);
        let drawn = whole("t", "", &plot.figure("c"));
        assert!(drawn.contains("vegaLite.compile") && drawn.len() > SCRIPTS[0].len());
        // A script ends at the first `</script`, whatever it is inside of.
        assert!(SCRIPTS.iter().all(|script| !script.contains("</script")));
    }
}
