"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("graphtemper-charts").textContent);
  // ast: expressions are interpreted, so that the page needs no permission to evaluate code.
  const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true };

  const draw = async (place) => {
    try {
      await vegaEmbed(place, specs[place.dataset.chart], options);
    } catch (error) {
      place.textContent = "This chart could not be drawn; its numbers are in the table below.";
      throw error;
    }
  };

  Promise.all([...document.querySelectorAll("[data-chart]")].map(draw)).then(
    () => { document.documentElement.dataset.charts = "ready"; },
    (error) => {
      document.documentElement.dataset.charts = "failed";
      console.error(error);
    },
  );
})();
