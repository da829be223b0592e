// The page: which collection and which view the address names, and what to show when something is missing.

import * as api from "./api.js";
import { announce, byId, el, notice } from "./dom.js";
import * as asked from "./query.js";
import { broken, empty, noCollections, unauthorised } from "./states.js";
import { startTheme } from "./theme.js";
import * as learned from "./views/learned.js";
import * as map from "./views/map.js";
import * as margin from "./views/margin.js";
import * as overview from "./views/overview.js";
import * as search from "./views/search.js";
import * as why from "./views/why.js";

const VIEWS = { overview, search, margin, map, why, learned };
const RETRY = 1500; // milliseconds while the server opens its stores

let names = [];
let current = new AbortController();

function place() {
  const [path, parameters] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, view] = path.split("/").map(decodeURIComponent);
  return { name, view: view in VIEWS ? view : "overview", parameters: new URLSearchParams(parameters ?? "") };
}

export const address = (name, view) => `#/${encodeURIComponent(name)}/${view}${asked.parameters()}`;

function showNavigation(name, view) {
  const links = Object.entries(VIEWS).map(([key, { title }]) =>
    el("a", { href: address(name, key), "aria-current": key === view ? "page" : undefined, "data-view": key }, title),
  );
  byId("views").replaceChildren(...links);
  byId("views").hidden = false;
  const shown = byId("views").querySelector("[aria-current]");
  if (shown) byId("views").scrollLeft = shown.offsetLeft - 40;
}

function showCollections(name) {
  const list = byId("collections");
  list.replaceChildren(...names.map((each) => el("option", { value: each }, each)));
  list.disabled = !names.length;
  if (!names.length) list.append(el("option", {}, "no collection"));
  if (name !== undefined) list.value = name;
}

function show(...nodes) {
  byId("main").replaceChildren(...nodes);
}

function failed(error) {
  if (error.name === "AbortError") return;
  byId("main").removeAttribute("aria-busy");
  if (error.status === 401) {
    byId("views").hidden = true;
    show(unauthorised(route));
  } else if (error.code === "starting") {
    show(el("p", { class: "waiting" }, "The server is opening its collections"));
    setTimeout(route, RETRY);
  } else {
    show(notice("bad", "This did not work", el("p", {}, error.message)),
      el("p", {}, el("button", { type: "button", onclick: route }, "Try again")));
  }
  showKey(error.status === 401);
}

/** A key can be forgotten; links, which cannot carry it, do not work then. */
function showKey(needed) {
  byId("key").hidden = !api.key.get();
  byId("api").hidden = needed || Boolean(api.key.get());
}

async function route() {
  current.abort();
  current = new AbortController();
  const { signal } = current;
  byId("main").setAttribute("aria-busy", "true");
  try {
    names = (await api.collections(signal)).map(({ name }) => name);
    showKey(false);
    const wanted = place();
    const name = wanted.name || names[0];
    showCollections(names.includes(name) ? name : undefined);
    if (name === undefined) {
      byId("views").hidden = true;
      show(noCollections());
      return;
    }
    await openView(name, wanted, signal);
  } catch (error) {
    failed(error);
  } finally {
    if (!signal.aborted) byId("main").removeAttribute("aria-busy");
  }
}

async function openView(name, { view, parameters }, signal) {
  asked.read(name, parameters);
  const info = await api.described(name, signal);
  document.title = `${name}: ${VIEWS[view].title} · interlace`;
  if (info.status === "red") {
    byId("views").hidden = true;
    show(broken(name, info.optimizer_status?.error));
    return;
  }
  showNavigation(name, view);
  const context = { name, info, signal, go: (to) => (location.hash = address(name, to)) };
  context.remember = () => {
    history.replaceState(null, "", address(name, view));
    showNavigation(name, view);
  };
  context.address = (to) => address(name, to);
  if (!info.points_count && view !== "overview") {
    show(empty(name));
    return;
  }
  const main = byId("main");
  const waiting = setTimeout(() => signal.aborted || show(el("p", { class: "waiting" }, VIEWS[view].waiting)), 250);
  try {
    const node = await VIEWS[view].render(context);
    if (!signal.aborted) {
      main.replaceChildren(node);
      announce(`${VIEWS[view].title} of ${name}`);
    }
  } finally {
    clearTimeout(waiting);
  }
}

byId("collections").addEventListener("change", (event) => {
  location.hash = `#/${encodeURIComponent(event.target.value)}/${place().view}`;
});
byId("key").addEventListener("click", () => {
  api.key.forget();
  route();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
window.addEventListener("hashchange", () => {
  route();
  window.scrollTo(0, 0);
});
startTheme(byId("theme"));
route();
