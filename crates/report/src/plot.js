// Draws every plot of the page at the width that it has, in the reader's colours.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 40rem)");
  const drawn = [];

  function config(width) {
    const ink = dark.matches ? "#e6e8eb" : "#1b1f24";
    const line = dark.matches ? "#3d444d" : "#d5dae0";
    return {
      background: "transparent",
      font: "system-ui, sans-serif",
      view: { stroke: null },
      axis: {
        labelColor: ink, titleColor: ink, domainColor: ink, tickColor: ink, gridColor: line,
        labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal",
      },
      axisQuantitative: { labelOverlap: "greedy", labelSeparation: 8 },
      axisX: { labelLimit: 150 },
      axisY: { labelLimit: width - 24 },
      legend: {
        orient: "bottom", direction: "horizontal", columns: narrow.matches ? 1 : 4, title: null,
        labelColor: ink, labelFontSize: 12, labelLimit: narrow.matches ? width - 40 : 240, symbolStrokeWidth: 2,
        // On a narrow screen a second legend stands below the first.
        layout: { bottom: { anchor: "start", direction: narrow.matches ? "vertical" : "horizontal" } },
      },
      header: { labelColor: ink, titleColor: ink },
      // Published values are seen on bars of any colour.
      style: {
        published: { filled: true, color: dark.matches ? "#14171a" : "#fff", stroke: ink },
        outline: { filled: false, color: ink },
        level: { color: ink },
        agrees: { color: ink },
      },
    };
  }

  async function draw(plot) {
    const chart = plot.querySelector(".chart");
    try {
      const spec = JSON.parse(plot.querySelector("script").textContent);
      const compiled = vegaLite.compile(spec, { config: config(chart.clientWidth) }).spec;
      const view = new vega.View(vega.parse(compiled), { renderer: "svg", container: chart, hover: true });
      await view.runAsync();
      plot.dataset.drawn = "yes";
      return view;
    } catch (e) {
      chart.textContent = "This plot cannot be drawn (" + e.message + "); its values stand below.";
      plot.dataset.drawn = "no";
      return null;
    }
  }

  async function all() {
    while (drawn.length > 0) drawn.pop()?.finalize();
    for (const plot of document.querySelectorAll("figure.plot")) drawn.push(await draw(plot));
    document.documentElement.dataset.drawn = "all";
  }

  dark.addEventListener("change", all);
  narrow.addEventListener("change", all);
  all();
})();
