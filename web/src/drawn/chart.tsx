import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useEffect, useRef } from "preact/hooks";
import type { Values } from "../told";
import { colour } from "../theme";
import { clock } from "../words";

export interface Line {
  label: string;
  values: Values;
  colour: string; // a name of the style sheet's
  fill?: boolean;
}

interface Props {
  title: string;
  until_s: number;
  step_s: number;
  span_s: number; // that is shown
  lines: Line[];
  show: (value: number) => string;
  most?: number; // of the axis
}

// Whole minutes: hours and minutes are shown.
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 180, 240].map((minutes) => minutes * 60);
const HEIGHT = 180;
const NOTHING = 1; // where a scale of zeros alone ends: parts of a byte are nothing to name there

const lastOf = (values: Values) => values.findLast((value) => value !== null) ?? null;
const hours = (unix_s: number) => clock(unix_s).slice(0, 5);

/** Lines over time, the last value at `until_s`. */
export function Chart({ title, until_s, step_s, span_s, lines, show, most }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const kind = [title, most, ...lines.map((line) => `${line.label}\n${line.colour}`)].join("\0");
  const steps = Math.min(Math.max(...lines.map((line) => line.values.length), 0), Math.ceil(span_s / step_s) + 1);
  const last = Math.floor(until_s / step_s) * step_s;
  const times = Array.from({ length: steps }, (_, at) => last - (steps - 1 - at) * step_s);
  const data = [times, ...lines.map((line) => line.values.slice(-steps))] as uPlot.AlignedData;

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const make = () => {
      plot.current?.destroy();
      const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
      plot.current = new uPlot(
        {
          width: Math.max(element.clientWidth, 200),
          height: HEIGHT,
          cursor: { y: false },
          legend: { live: true },
          scales: { y: { range: (_, __, top) => [0, most ?? (top > 0 ? top * 1.1 : NOTHING)] } },
          axes: [{ ...axis, incrs: STEPS_S, values: (_, ticks) => ticks.map(hours) }, { ...axis, size: 88, values: (u, ticks) => ticks.map((tick) => (tick && most === undefined && u.scales.y!.max === NOTHING ? "" : show(tick))) }],
          series: [
            { label: "at", value: (_, at) => (at ? clock(at) : "now") },
            ...lines.map((line) => ({
              label: line.label,
              stroke: colour(line.colour),
              width: 2,
              ...(line.fill ? { fill: `${colour(line.colour)}33` } : {}),
              points: { show: false },
              // Where nobody points at a time: the newest.
              value: (u: uPlot, value: number | null, series: number, at: number | null) => {
                const shown = at === null || at === undefined ? lastOf(u.data[series] as Values) : value;
                return shown === null || shown === undefined ? "-" : show(shown);
              },
            })),
          ],
        },
        data,
        element,
      );
    };
    make();
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(element.clientWidth, 200), height: HEIGHT }));
    observer.observe(element);
    addEventListener("tfquiver-theme", make);
    return () => {
      removeEventListener("tfquiver-theme", make);
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [kind]);
  useEffect(() => plot.current?.setData(data));

  const said = lines.map((line) => {
    const value = lastOf(line.values);
    return `${line.label}: ${value === null ? "not known" : show(value)}`;
  });
  return (
    <figure role="group" aria-label={`${title}. Now ${said.join(", ")}`}>
      <figcaption>{title}</figcaption>
      <div ref={box} />
    </figure>
  );
}
