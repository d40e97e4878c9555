import { Chart } from "../drawn/chart";
import { go, type Place } from "../place";
import type { Job, Now, Past } from "../told";
import { percent, rate } from "../words";
import { Bar, Find, Table } from "../drawn/table";

const COLOURS = ["one", "two", "three", "four", "five"];

/** Whose rates are drawn: the one that is chosen, or those that read most. */
export function drawn(now: Now | null, place: Place): string[] {
  if (place.job) return [place.job];
  const reading = (now?.jobs ?? []).filter((job) => job.bytes_per_s);
  reading.sort((one, other) => (other.bytes_per_s ?? 0) - (one.bytes_per_s ?? 0));
  return [...new Set(reading.map((job) => job.job))].slice(0, COLOURS.length).sort();
}

export function Jobs({ now, past, place, span_s }: { now: Now; past: Past | null; place: Place; span_s: number }) {
  const sought = place.find.toLowerCase();
  const rows = now.jobs.filter((job) => `${job.name} ${job.dataset}`.toLowerCase().includes(sought));
  const names = new Map(now.jobs.map((job) => [job.job, job.name]));
  const jobs = Object.entries(past?.jobs ?? {});
  const lines = (key: string) => jobs.map(([job, its], at) => ({ label: names.get(job) ?? job, values: its[key] ?? [], colour: COLOURS[at] ?? "one" }));
  return (
    <>
      <section>
        <div class="tools">
          <Find find={place.find} what="jobs" onFind={(find) => go({ find }, true)} />
          {place.job && <button onClick={() => go({ job: "" })}>all jobs</button>}
        </div>
        <Table<Job>
          label="jobs"
          rows={rows}
          id={(job) => `${job.job} ${job.digest_id}`}
          chosen={rows.filter((job) => job.job === place.job).map((job) => `${job.job} ${job.digest_id}`)[0]}
          onChoose={(job) => go({ job: job.job === place.job ? "" : job.job })}
          columns={[
            { head: "job", cell: (job) => job.name, width: "minmax(4.5rem, 2fr)" },
            { head: "data set", cell: (job) => job.dataset, width: "minmax(5rem, 2fr)", wide: true },
            { head: "epoch", cell: (job) => job.epoch, width: "3.5rem", number: true, wide: true },
            { head: "read", cell: (job) => <Bar share={job.done} label={percent(job.done)} />, width: "minmax(3.2rem, 1fr)" },
            { head: "reads", cell: (job) => (job.readers ? rate(job.bytes_per_s) : job.state), width: "5.2rem", number: true },
            { head: "waits", cell: (job) => percent(job.stall_share), width: "2.8rem", number: true },
            { head: "hits", cell: (job) => percent(job.hit_share), width: "2.8rem", number: true },
            { head: "step", cell: (job) => (job.step_ms === undefined ? "-" : `${job.step_ms.toFixed(1)} ms`), width: "5.5rem", number: true, wide: true },
          ]}
        />
      </section>
      {past && jobs.length > 0 && (
        <section>
          <Chart title={place.job ? "Reads" : "Reads, of the jobs that read most"} until_s={past.now_s} step_s={past.step_s} span_s={span_s} show={rate} lines={lines("bytes_per_s")} />
          <Chart title="Waits for data, of its time" until_s={past.now_s} step_s={past.step_s} span_s={span_s} show={percent} most={1} lines={lines("stall_share")} />
        </section>
      )}
    </>
  );
}
