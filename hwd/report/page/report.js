// Draws the figures of the page: for the width that there is, light or dark; those of a closed part when it is opened.
(() => {
  const {widths, light, dark} = JSON.parse(document.getElementById("looks").textContent);
  const night = matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map(); // figure: which of its drawings it has

  function draw(figure, forPaper = false) {
    if (figure.closest("details:not([open])")) return; // drawn when that is opened
    const place = figure.querySelector(".plot");
    const across = forPaper ? 700 : place.clientWidth;
    const fits = widths.findIndex((width) => width <= across + 20);
    const index = fits < 0 ? widths.length - 1 : fits;
    const look = night.matches && !forPaper ? dark : light;
    const which = index + (look === dark ? " dark" : " light");
    if (drawn.get(figure) === which) return;
    drawn.set(figure, which);
    const all = JSON.parse(figure.querySelector("script").textContent);
    const chart = {...all[index], datasets: all[0].datasets, config: look};
    const how = {actions: false, renderer: "svg", tooltip: {theme: look === dark ? "dark" : "light"}};
    return vegaEmbed(place, chart, how).catch((error) => { place.textContent = `This figure cannot be drawn: ${error}`; });
  }

  async function drawIn(part) { // one after the other, so that the page can be read meanwhile
    for (const figure of part.querySelectorAll("figure.chart")) await draw(figure);
  }

  const again = () => [...drawn.keys()].forEach((figure) => draw(figure));
  document.querySelectorAll("details").forEach((part) => part.addEventListener("toggle", () => drawIn(part)));
  night.addEventListener("change", again);
  addEventListener("resize", again);
  addEventListener("beforeprint", () => document.querySelectorAll("figure.chart").forEach((figure) => draw(figure, true)));
  addEventListener("afterprint", again);
  drawIn(document);
})();
