"use strict";
// Before the page is drawn, so that it does not flash in the other colours.
(() => {
  let theme = "";
  try { theme = localStorage.getItem("theme") || ""; } catch { /* no storage: the system decides */ }
  if (theme) document.documentElement.dataset.theme = theme;
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme")?.addEventListener("click", () => {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* as above */ }
    });
  });
})();
