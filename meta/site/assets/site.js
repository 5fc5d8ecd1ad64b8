// Theme, sorting, filters that stay in the address, the stale banner, what is new since the last visit. All optional.
"use strict";

const store = {
  get(name) { try { return localStorage.getItem(name); } catch { return null; } },
  set(name, value) { try { localStorage.setItem(name, value); } catch { return; } },
};

const root = document.documentElement;
const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
if (store.get("ratchet-theme")) root.dataset.theme = store.get("ratchet-theme");
const theme = document.getElementById("theme");
const label = () => { theme.textContent = dark() ? "Light" : "Dark"; };
theme.hidden = false;
label();
theme.addEventListener("click", () => {
  root.dataset.theme = dark() ? "light" : "dark";
  store.set("ratchet-theme", root.dataset.theme);
  label();
});

const night = Date.parse(document.body.dataset.night);
const stale = document.getElementById("stale");
if (stale && night) stale.hidden = Date.now() - night <= 36 * 3600 * 1000;

const value = (cell) => {
  const text = cell.textContent.trim();
  const number = parseFloat(text.replace(/[$,\s]/g, ""));
  return text === "–" || text === "" ? null : cell.classList.contains("n") && !Number.isNaN(number) ? number : text;
};

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows].map((row) => [value(row.cells[column]), row]);
      rows.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null); // unknown last, either way
        const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
        return up ? order : -order;
      });
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  });
}

const form = document.querySelector("form.filter");
if (form) {
  form.hidden = false;
  const asked = new URLSearchParams(location.search);
  for (const input of form.elements) {
    if (!asked.has(input.name)) continue;
    if (input.type === "checkbox") input.checked = true;
    else input.value = asked.get(input.name);
  }
  const apply = () => {
    const wanted = new FormData(form);
    const kept = new URLSearchParams();
    for (const [name, text] of wanted) if (text) kept.set(name, text);
    for (const row of document.querySelectorAll("tbody tr[data-agent], details.case")) {
      const name = (row.matches("details") ? row.id : row.dataset.agent).toLowerCase();
      const word = (wanted.get("agent") || wanted.get("case") || "").toLowerCase();
      const since = wanted.get("since");
      const passed = wanted.get("failed") && row.dataset.failed !== wanted.get("failed");
      row.hidden = !name.includes(word) || Boolean(since && row.dataset.date < since) || Boolean(passed);
    }
    const query = kept.toString();
    history.replaceState(null, "", query ? `?${query}` : location.pathname);
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  if ([...asked].length) apply();
}

const cards = [...document.querySelectorAll("[data-new]")];
if (cards.length) {
  const before = store.get("ratchet-seen");
  const seen = new Set((before || "").split("\n"));
  for (const card of cards) {
    if (before !== null && !seen.has(card.dataset.new)) {
      const tag = document.createElement("span");
      tag.className = "tag live";
      tag.textContent = "new since your last visit";
      card.classList.add("fresh");
      card.append(tag);
    }
  }
  store.set("ratchet-seen", cards.map((card) => card.dataset.new).join("\n"));
}

for (const time of document.querySelectorAll("time[datetime]")) time.title = new Date(time.dateTime).toLocaleString();

if (location.hash) {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.matches("details")) target.open = true;
}
