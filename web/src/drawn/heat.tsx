import { Canvas } from "./canvas";
import { colour } from "../theme";
import type { Past } from "../told";
import { date, many } from "../words";

const NOTHING = 255;
const FULL = 254;
const LEAST_ROW = 3;

/** How much of each chunk was cached: a row a chunk, time to the right. */
export function Heat({ heat, now_s, name, span_s }: { heat: NonNullable<Past["heat"]>; now_s: number; name: string; span_s: number }) {
  const cells = Uint8Array.from(atob(heat.cells), (letter) => letter.charCodeAt(0));
  const newest = cells[cells.length - heat.rows] === NOTHING ? 1 : 0; // it has only just begun
  const columns = Math.min(Math.ceil(span_s / heat.step_s), heat.columns - newest);
  const skipped = heat.columns - columns - newest;
  const height = Math.max(heat.rows * LEAST_ROW, 120);
  const cell = (column: number, row: number) => cells[(skipped + column) * heat.rows + row] ?? NOTHING;
  let known = 0;
  let last = 0;
  for (let row = 0; row < heat.rows; row += 1) {
    const value = cell(columns - 1, row);
    if (value !== NOTHING) {
      known += 1;
      last += value / FULL;
    }
  }
  const now = known ? `${Math.round((100 * last) / known)}% of it is cached now` : "not known now";
  let wide = 1;
  return (
    <Canvas
      height={height}
      label={`What was cached of ${name}, ${many(heat.rows, "row")} of chunks over time: ${now}`}
      onPoint={(x, y) => {
        const column = Math.floor((x / wide) * columns);
        const row = Math.floor((y / height) * heat.rows);
        const value = cell(column, row);
        const at = date(Math.floor(now_s / heat.step_s) * heat.step_s - (columns - 1 - column + newest) * heat.step_s);
        return `${at}, chunk ${row + 1} of ${heat.rows}: ${value === NOTHING ? "not known" : `${Math.round((100 * value) / FULL)}% cached`}`;
      }}
      draw={(context, width) => {
        wide = width;
        context.fillStyle = colour("back");
        context.fillRect(0, 0, width, height);
        context.fillStyle = colour("one");
        for (let column = 0; column < columns; column += 1) {
          const left = Math.floor((column * width) / columns);
          const right = Math.ceil(((column + 1) * width) / columns);
          for (let row = 0; row < heat.rows; row += 1) {
            const value = cell(column, row);
            if (value === NOTHING) continue;
            const top = (row * height) / heat.rows;
            context.globalAlpha = 0.06 + (0.94 * value) / FULL;
            context.fillRect(left, top, right - left, height / heat.rows);
          }
        }
        context.globalAlpha = 1;
      }}
    />
  );
}
