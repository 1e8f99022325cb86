"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("graphtemper-charts").textContent);
  // ast: expressions are interpreted, so the page needs no permission to evaluate code.
  const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true };

  const draw = async (place) => {
    try {
      await vegaEmbed(place, specs[place.dataset.chart], options);
    } catch (error) {
      place.textContent = "This chart could not be drawn; its numbers are in the table below.";
      throw error;
    }
  };

  const failed = (error) => {
    document.documentElement.dataset.charts = "failed";
    console.error(error);
  };
  const folded = (place) => place.closest("details:not([open])");
  const drawOnce = (places) => {
    const drawn = places.filter((place) => !place.dataset.drawn && !folded(place));
    for (const place of drawn) place.dataset.drawn = "yes";
    return Promise.all(drawn.map(draw));
  };

  // A chart takes the width of its place, which a folded part does not have.
  const places = [...document.querySelectorAll("[data-chart]")];
  for (const part of document.querySelectorAll("details")) {
    part.addEventListener("toggle", () => {
      drawOnce(places.filter((place) => part.contains(place))).catch(failed);
    });
  }
  drawOnce(places).then(() => {
    document.documentElement.dataset.charts = "ready";
  }, failed);
})();
