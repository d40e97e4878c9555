// Where the page is: in the link's fragment, so that a link can be shared and the browser's "back" works.
import { useEffect, useState } from "preact/hooks";

export const TABS = ["overview", "jobs", "data", "nodes", "decisions"] as const;
export type Tab = (typeof TABS)[number];

export interface Place {
  tab: Tab;
  span: "hour" | "day";
  job: string;
  dataset: string;
  find: string;
}

function read(): Place {
  const said = new URLSearchParams(location.hash.slice(1));
  const tab = TABS.find((one) => one === said.get("tab")) ?? "overview";
  const text = (name: string) => (said.get(name) ?? "").slice(0, 300);
  return { tab, span: said.get("span") === "day" ? "day" : "hour", job: text("job"), dataset: text("dataset"), find: text("find") };
}

export function go(change: Partial<Place>, keep = false): void {
  const place = { ...read(), ...change };
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(place)) {
    if (value && value !== "hour" && value !== "overview") said.set(name, value);
  }
  const hash = `#${said}`;
  if (keep) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  dispatchEvent(new PopStateEvent("popstate"));
}

export function usePlace(): Place {
  const [place, set] = useState(read);
  useEffect(() => {
    const changed = () => set(read());
    addEventListener("popstate", changed);
    addEventListener("hashchange", changed);
    return () => {
      removeEventListener("popstate", changed);
      removeEventListener("hashchange", changed);
    };
  }, []);
  return place;
}
