const KEY = "tfquiver-theme";

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function isDark(): boolean {
  const chosen = document.documentElement.dataset["theme"];
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function restore(): void {
  const chosen = localStorage.getItem(KEY);
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset["theme"] = chosen;
}

export function toggle(): void {
  const chosen = isDark() ? "light" : "dark";
  document.documentElement.dataset["theme"] = chosen;
  localStorage.setItem(KEY, chosen);
  dispatchEvent(new Event("tfquiver-theme"));
}
