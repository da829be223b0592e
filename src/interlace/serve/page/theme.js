// Light, dark, or as the system says.

const NAMES = { auto: "Auto", light: "Light", dark: "Dark" };
const KEY = "interlace-theme";

export function startTheme(button) {
  const order = Object.keys(NAMES);
  let theme = order.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "auto";
  const apply = () => {
    document.documentElement.dataset.theme = theme;
    button.textContent = `◐ ${NAMES[theme]}`;
    const text = `Colours: ${theme === "auto" ? "system" : theme}`;
    button.setAttribute("aria-label", text);
    button.title = text;
    window.dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    theme = order[(order.indexOf(theme) + 1) % order.length];
    localStorage.setItem(KEY, theme);
    apply();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}

/** A colour of the style sheet, for canvases. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
