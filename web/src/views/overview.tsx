import { Chart } from "../drawn/chart";
import { Gantt, withOpen } from "../drawn/gantt";
import { go } from "../place";
import type { Now, Past } from "../told";
import { bytes, many, percent, rate } from "../words";

export function Overview({ now, past, span_s }: { now: Now; past: Past | null; span_s: number }) {
  const reading = now.jobs.filter((job) => job.readers > 0);
  const used = now.nodes.reduce((sum, node) => sum + (node.used_bytes ?? 0), 0);
  const quota = now.nodes.reduce((sum, node) => sum + (node.quota_bytes ?? 0), 0);
  const { saved } = now;
  const figures: [string, string, string][] = [
    ["saved", bytes(saved.bytes), `${many(saved.requests, "request")} to the store less; it gave ${bytes(saved.store_bytes)} of ${bytes(saved.served_bytes)}`],
    ["jobs read", rate(reading.reduce((sum, job) => sum + (job.bytes_per_s ?? 0), 0)), many(reading.length, "job")],
    ["from the cache", percent(now.hit_ratio), "of the shards since the nodes were started"],
    ["cache", percent(quota ? used / quota : 0), `${bytes(used)} of ${bytes(quota)}, ${many(now.nodes.length, "node")}`],
  ];
  const cluster = past && !past.untold ? past.cluster : null;
  return (
    <>
      <section class="figures" aria-label="figures">
        {figures.map(([name, value, more]) => (
          <div class="figure">
            <h3>{name}</h3>
            <strong>{value}</strong>
            <p>{more}</p>
          </div>
        ))}
      </section>
      {past?.untold && <p class="quiet">{past.untold}</p>}
      {past && cluster && (
        <>
          <section>
            <Chart
              title="What leaves the object store, and what would without a cache"
              until_s={past.now_s}
              step_s={past.step_s}
              span_s={span_s}
              show={rate}
              lines={[
                { label: "without a cache", values: cluster["read_bytes_per_s"] ?? [], colour: "two" },
                { label: "leaves the store", values: cluster["store_bytes_per_s"] ?? [], colour: "one", fill: true },
              ]}
            />
          </section>
          <section>
            <h2>Epochs</h2>
            <Gantt epochs={withOpen(past.epochs, reading, past.now_s)} now_s={past.now_s} span_s={span_s} onChoose={(job) => go({ tab: "jobs", job })} />
          </section>
        </>
      )}
    </>
  );
}
