import { render } from "preact";
import "./style.css";
import { useNow, usePast } from "./live";
import { go, TABS, usePlace, type Tab } from "./place";
import { follow, toggle } from "./theme";
import type { Past } from "./told";
import { clock } from "./words";
import { Data, drawn as dataDrawn } from "./views/data";
import { Decisions } from "./views/decisions";
import { drawn as jobsDrawn, Jobs } from "./views/jobs";
import { Nodes } from "./views/nodes";
import { Overview } from "./views/overview";

const NAMES: Record<Tab, string> = { overview: "Overview", jobs: "Jobs", data: "Data sets", nodes: "Nodes", decisions: "Decisions" };

/** Seconds that are drawn: no more than something is known of, ten minutes at least. */
function shown(past: Past | null, span: string): number {
  const most = span === "day" ? 86_400 : 3600;
  const known = past?.cluster?.["jobs"];
  const first = known?.findIndex((value) => value !== null) ?? -1;
  if (!past || !known || first < 0) return most;
  return Math.min(most, Math.max((known.length - first) * past.step_s, 600));
}

function App() {
  const place = usePlace();
  const { now, trouble } = useNow();
  const past = usePast(place.span, place.tab === "jobs" ? jobsDrawn(now, place) : [], place.tab === "data" ? dataDrawn(now, place) : "");
  const span_s = shown(past, place.span);
  return (
    <>
      <header>
        <h1>tfquiver</h1>
        <span class="quiet">{now ? `${now.coordinator}, ${clock(now.now_s)}` : ""}</span>
        <span class="space" />
        <div role="group" aria-label="time shown">
          {(["hour", "day"] as const).map((span) => (
            <button aria-pressed={place.span === span} onClick={() => go({ span })}>
              {span}
            </button>
          ))}
        </div>
        <button onClick={toggle} aria-label="light or dark">
          ◐
        </button>
      </header>
      <nav aria-label="views">
        {TABS.map((tab) => (
          <button aria-current={place.tab === tab ? "page" : undefined} onClick={() => go({ tab, find: "" })}>
            {NAMES[tab]}
          </button>
        ))}
      </nav>
      <main>
        <div role="status" aria-live="polite">
          {trouble && <p class="problem">{trouble}</p>}
          {now?.problems.map((problem) => <p class="problem">{problem}</p>)}
          {now?.going_on.map((line) => <p class="going-on">{line}</p>)}
        </div>
        {!now && !trouble && <p class="quiet">asking…</p>}
        {now && place.tab === "overview" && <Overview now={now} past={past} span_s={span_s} />}
        {now && place.tab === "jobs" && <Jobs now={now} past={past} place={place} span_s={span_s} />}
        {now && place.tab === "data" && <Data now={now} past={past} place={place} span_s={span_s} />}
        {now && place.tab === "nodes" && <Nodes now={now} place={place} />}
        {now && place.tab === "decisions" && <Decisions past={past} place={place} />}
      </main>
    </>
  );
}

follow();
const root = document.getElementById("app");
if (root) render(<App />, root);
