import { Heat } from "../drawn/heat";
import { go, type Place } from "../place";
import type { Dataset, Now, Past } from "../told";
import { bytes, count, percent } from "../words";
import { Bar, Find, Table } from "../drawn/table";

/** Whose chunks are drawn: the one that is chosen, or the largest that somebody reads. */
export function drawn(now: Now | null, place: Place): string {
  if (/^[0-9a-f]{64}$/.test(place.dataset)) return place.dataset;
  const read = new Set(now?.jobs.filter((job) => job.readers).map((job) => job.digest_id));
  const [first] = [...(now?.datasets ?? [])].sort((one, other) => Number(read.has(other.digest_id)) - Number(read.has(one.digest_id)) || other.size_bytes - one.size_bytes);
  return first?.digest_id ?? "";
}

export function Data({ now, past, place, span_s }: { now: Now; past: Past | null; place: Place; span_s: number }) {
  const sought = place.find.toLowerCase();
  const rows = now.datasets.filter((one) => one.name.toLowerCase().includes(sought));
  const chosen = drawn(now, place);
  const name = now.datasets.find((one) => one.digest_id === chosen)?.name ?? chosen.slice(0, 8);
  const here = (one: Dataset) => (one.resident_bytes === undefined ? null : one.resident_bytes / (one.size_bytes || 1));
  return (
    <>
      <section>
        <div class="tools">
          <Find find={place.find} what="data sets" onFind={(find) => go({ find }, true)} />
        </div>
        <Table<Dataset>
          label="data sets"
          rows={rows}
          id={(one) => one.digest_id}
          chosen={chosen}
          onChoose={(one) => go({ dataset: one.digest_id })}
          columns={[
            { head: "data set", cell: (one) => one.name, width: "minmax(5rem, 3fr)" },
            { head: "size", cell: (one) => bytes(one.size_bytes), width: "4.2rem", number: true },
            { head: "records", cell: (one) => count(one.records), width: "7rem", number: true, wide: true },
            { head: "cached", cell: (one) => (here(one) === null ? "-" : <Bar share={here(one) ?? 0} label={percent(here(one))} />), width: "minmax(4rem, 2fr)" },
            { head: "chunks", cell: (one) => (one.chunks ? `${one.resident_chunks}/${one.chunks}` : "-"), width: "5rem", number: true, wide: true },
            { head: "how", cell: (one) => one.cache, width: "minmax(5rem, 2fr)" },
          ]}
        />
      </section>
      {past?.heat && (
        <section>
          <h2>Chunks of {name} over time</h2>
          <p class="quiet">A row is a chunk (or a few, or, where it is not cached by chunks, a run of shards); the darker, the more of it was cached.</p>
          <Heat heat={past.heat} now_s={past.now_s} name={name} span_s={span_s} />
        </section>
      )}
    </>
  );
}
