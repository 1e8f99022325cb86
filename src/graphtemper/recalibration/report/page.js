"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("graphtemper-charts");
  const environments = read("graphtemper-report").atlas.environments;
  // ast: expressions are interpreted, so the page needs no permission to evaluate code.
  const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true };

  const draw = async (place) => {
    try {
      const drawn = await vegaEmbed(place, specs[place.dataset.chart], options);
      return [place.dataset.chart, drawn.view];
    } catch (error) {
      place.textContent = "This chart could not be drawn; its numbers are in the table below.";
      throw error;
    }
  };

  const steer = (map) => {
    const family = document.getElementById("map-family");
    const step = document.getElementById("map-step");
    const status = document.getElementById("map-status");
    family.addEventListener("change", () => map.signal("family", family.value).runAsync());
    step.addEventListener("input", () => {
      const item = environments[Number(step.value) - 1];
      map.signal("step", Number(step.value) - 1).runAsync();
      status.textContent = item
        ? `${step.value} of ${environments.length}: ${item.label}, distance ` +
          `${item.distance.toFixed(2)}, accuracy there ${(100 * item.accuracy).toFixed(1)} %`
        : "none";
      step.setAttribute("aria-valuetext", status.textContent);
    });
    document.getElementById("map-controls").hidden = false;
  };

  const failed = (error) => {
    document.documentElement.dataset.charts = "failed";
    console.error(error);
  };
  const folded = (place) => place.closest("details:not([open])");
  const drawOnce = (places) => {
    const drawn = places.filter((place) => !place.dataset.drawn && !folded(place));
    for (const place of drawn) place.dataset.drawn = "yes";
    return Promise.all(drawn.map(draw)).then((views) => {
      const map = new Map(views).get("map");
      if (map) steer(map);
    });
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
