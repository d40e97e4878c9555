import { go, type Place } from "../place";
import type { Decision, Past } from "../told";
import { bytes, date, rate } from "../words";
import { Find } from "../drawn/table";

function said(kind: string, value: unknown): string {
  if (value === null || value === undefined) return kind === "job" ? "not limited" : "nothing";
  if (typeof value === "number") return rate(value);
  if (typeof value === "object") {
    const { mode, cache_bytes } = value as { mode?: unknown; cache_bytes?: unknown };
    return `${String(mode)}${typeof cache_bytes === "number" && cache_bytes ? ` ${bytes(cache_bytes)}` : ""}`;
  }
  return String(value);
}

/** What was measured, and the rule, where that says more. */
function why({ measurement, rule }: Decision): string {
  return measurement.startsWith(rule) ? measurement : [measurement, rule].filter(Boolean).join("; ");
}

export function Decisions({ past, place }: { past: Past | null; place: Place }) {
  const sought = place.find.toLowerCase();
  const rows = [...(past?.decisions ?? [])].reverse().filter((one) => `${one.kind} ${one.name} ${one.refused}`.toLowerCase().includes(sought));
  return (
    <section>
      <div class="tools">
        <Find find={place.find} what="decisions" onFind={(find) => go({ find }, true)} />
      </div>
      {!rows.length && <p class="quiet">{past?.untold ?? "The policy has decided nothing yet."}</p>}
      <ol class="decisions" aria-label="decisions, the newest first">
        {rows.map((one: Decision) => (
          <li class={one.refused ? "refused" : ""}>
            <time>{date(one.at_s)}</time>{" "}
            <b>
              {one.kind} {one.name}
            </b>{" "}
            {one.refused ? `not changed: ${one.refused}` : `${said(one.kind, one.was)} → ${said(one.kind, one.becomes)}`}
            {(one.measurement || one.rule) && <p>{why(one)}</p>}
          </li>
        ))}
      </ol>
    </section>
  );
}
