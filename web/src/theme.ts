const KEY = "tfquiver-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** As was chosen here, else as the system is, now and whenever that changes. */
export function follow(): void {
  system.addEventListener("change", show);
  show();
}

export function toggle(): void {
  localStorage.setItem(KEY, shown() === "dark" ? "light" : "dark");
  show();
}

function shown(): string | undefined {
  return document.documentElement.dataset["theme"];
}

function show(): void {
  const chosen = localStorage.getItem(KEY);
  const theme = chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light";
  if (theme === shown()) return;
  document.documentElement.dataset["theme"] = theme;
  dispatchEvent(new Event("tfquiver-theme"));
}
