import { Canvas } from "./canvas";
import { colour } from "../theme";
import type { Epoch, Job } from "../told";
import { clock, many, percent } from "../words";

const ROW = 18;
const MOST_ROWS = 60;
const LONGEST_NAME = 200; // of those in the past: the coordinator keeps no more of each (history_of_the_last_day/epochs.py)

interface Props {
  epochs: Epoch[];
  now_s: number;
  span_s: number;
  onChoose: (job: string) => void;
}

/** Of a name what the past has of it, which counts characters, not halves of them. */
function kept(name: string): string {
  return name.length > LONGEST_NAME ? [...name].slice(0, LONGEST_NAME).join("") : name;
}

function key({ job, dataset, epoch }: { job: string; dataset: string; epoch: number }): string {
  return JSON.stringify([kept(job), kept(dataset), epoch]);
}

/** The coordinator looks every ten seconds, and pages ask as seldom: what it has not seen yet is read from now on. A
 * job that reads now has its whole name in the past, too: it has one row, and is found by it. */
export function withOpen(epochs: Epoch[], jobs: Job[], now_s: number): Epoch[] {
  const known = new Set(epochs.map(key));
  const open = jobs.filter((one) => one.readers > 0 && !known.has(key(one)));
  const whole = new Map(jobs.map(({ job }) => [kept(job), job]));
  const past = epochs.map((one) => ({ ...one, job: whole.get(one.job) ?? one.job }));
  return [...past, ...open.map(({ job, dataset, epoch, done }) => ({ job, dataset, epoch, done, began_s: now_s, ended_s: now_s }))];
}

/** When each job read which epoch; the jobs that read last first. */
export function Gantt({ epochs, now_s, span_s, onChoose }: Props) {
  const byJob = new Map<string, Epoch[]>();
  for (const one of [...epochs].sort((a, b) => b.ended_s - a.ended_s)) {
    const row = byJob.get(one.job);
    if (row) row.push(one);
    else if (byJob.size < MOST_ROWS) byJob.set(one.job, [one]);
  }
  const rows = [...byJob];
  if (!rows.length) return <p class="quiet">No epoch was read in this time.</p>;
  const since = now_s - span_s;
  const left = (width: number) => (width < 600 ? 120 : 220);
  const place = (width: number, at: number) => left(width) + ((Math.max(at, since) - since) / span_s) * (width - left(width));
  let wide = 1;
  const found = (x: number, y: number) => {
    const row = rows[Math.floor(y / ROW)];
    return { row, epoch: row?.[1].find((one) => place(wide, one.began_s) <= x && x <= place(wide, one.ended_s) + 3) };
  };
  return (
    <Canvas
      height={rows.length * ROW}
      label={`Epochs of ${many(rows.length, "job")}. ${rows.slice(0, 5).map(([job, its]) => `${job}: epoch ${its[0]?.epoch}, ${percent(its[0]?.done)}`).join("; ")}`}
      onPoint={(x, y) => {
        const { row, epoch } = found(x, y);
        if (!row) return "";
        if (!epoch) return row[0];
        return `${row[0]}, ${epoch.dataset}, epoch ${epoch.epoch}: ${percent(epoch.done)}, ${clock(epoch.began_s)} to ${clock(epoch.ended_s)}`;
      }}
      onChoose={(x, y) => {
        const { row } = found(x, y);
        if (row) onChoose(row[0]);
      }}
      draw={(context, width) => {
        wide = width;
        context.font = "12px system-ui, sans-serif";
        context.textBaseline = "middle";
        const fills = [colour("one"), colour("three")];
        rows.forEach(([job, its], at) => {
          const top = at * ROW;
          context.fillStyle = colour("text");
          const room = Math.floor(left(width) / 7.2);
          context.fillText(job.length > room ? `${job.slice(0, room - 1)}…` : job, 0, top + ROW / 2);
          for (const one of its) {
            const began = place(width, one.began_s);
            context.fillStyle = fills[one.epoch % 2] ?? "";
            context.fillRect(began, top + 2, Math.max(place(width, one.ended_s) - began - 1, 2), ROW - 4);
          }
        });
      }}
    />
  );
}
