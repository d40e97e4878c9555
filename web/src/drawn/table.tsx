import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { many } from "../words";

export interface Column<Row> {
  head: string;
  cell: (row: Row) => ComponentChildren;
  width: string; // of CSS grids
  narrow?: string; // the same on a phone
  number?: boolean;
  wide?: boolean; // left out where there is a phone's width
}

interface Props<Row> {
  label: string;
  rows: Row[];
  columns: Column<Row>[];
  id: (row: Row) => string;
  chosen?: string;
  onChoose?: (row: Row) => void;
}

const ROW = 32;
const SHOWN = 14;
const AROUND = 6;

/** Only the rows that are seen are made: of a thousand nodes a page would stutter. */
export function Table<Row>({ label, rows, columns, id, chosen, onChoose }: Props<Row>) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [narrow, setNarrow] = useState(() => innerWidth < 700);
  useEffect(() => {
    const media = matchMedia("(max-width: 700px)");
    const changed = () => setNarrow(media.matches);
    changed();
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  const seen = columns.filter((column) => !(narrow && column.wide));
  const first = Math.max(Math.floor(top / ROW) - AROUND, 0);
  const some = rows.slice(first, first + SHOWN + 2 * AROUND);
  const grid = { gridTemplateColumns: seen.map((column) => (narrow && column.narrow) || column.width).join(" ") };
  return (
    <div role="table" aria-label={label} aria-rowcount={rows.length + 1} class="table">
      <div role="row" class="row head" style={grid}>
        {seen.map((column) => (
          <span role="columnheader" class={column.number ? "number" : ""}>
            {column.head}
          </span>
        ))}
      </div>
      <div
        ref={box}
        class="rows"
        tabIndex={0}
        aria-label={`${label}, ${many(rows.length, "row")}`}
        style={{ height: `${Math.min(rows.length, SHOWN) * ROW}px` }}
        onScroll={() => setTop(box.current?.scrollTop ?? 0)}
      >
        <div style={{ height: `${rows.length * ROW}px`, position: "relative" }}>
          {some.map((row, at) => (
            <div
              key={id(row)}
              role="row"
              aria-rowindex={first + at + 2}
              aria-selected={chosen === id(row)}
              class={`row ${chosen === id(row) ? "chosen" : ""} ${onChoose ? "can" : ""}`}
              style={{ ...grid, position: "absolute", top: `${(first + at) * ROW}px`, height: `${ROW}px` }}
              tabIndex={onChoose ? 0 : undefined}
              onClick={() => onChoose?.(row)}
              onKeyDown={(event) => {
                if (onChoose && (event.key === "Enter" || event.key === " ")) {
                  event.preventDefault();
                  onChoose(row);
                }
              }}
            >
              {seen.map((column) => (
                <span role="cell" class={column.number ? "number" : ""}>
                  {column.cell(row)}
                </span>
              ))}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}

/** `more`: said, too, and shown where there is more room than on a phone. */
export function Bar({ share, label, more = "" }: { share: number; label: string; more?: string }) {
  const value = Math.min(Math.max(share, 0), 1);
  return (
    <span class="bar" role="img" aria-label={label + more}>
      <span style={{ width: `${100 * value}%` }} />
      <b>
        {label}
        {more && <span class="wide">{more}</span>}
      </b>
    </span>
  );
}

export function Find({ find, what, onFind }: { find: string; what: string; onFind: (find: string) => void }) {
  return <input type="search" value={find} placeholder={`find ${what}`} aria-label={`find ${what}`} onInput={(event) => onFind(event.currentTarget.value)} />;
}
