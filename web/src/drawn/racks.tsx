import { Canvas } from "./canvas";
import { colour } from "../theme";
import { isBad, type Node } from "../told";
import { bytes, many, percent } from "../words";

const SIZE = 16;
const TITLE = 18;

interface Spot {
  node: Node;
  x: number;
  y: number;
}

/** Every node a square, by racks: how full it is; red: lost, or it does not answer; an outline: a spot node that is gone. */
export function Racks({ nodes, width, onChoose }: { nodes: Node[]; width: number; onChoose: (node: Node) => void }) {
  const racks = new Map<string, Node[]>();
  for (const node of nodes) {
    const rack = racks.get(node.rack);
    if (rack) rack.push(node);
    else racks.set(node.rack, [node]);
  }
  const names = [...racks.keys()].sort();
  const row = Math.max(Math.floor(width / SIZE), 1);
  const spots: Spot[] = [];
  const titles: [string, number][] = [];
  let y = 0;
  for (const name of names) {
    const its = racks.get(name) ?? [];
    if (name || names.length > 1) {
      titles.push([`${name ? `rack ${name}` : "no rack"}: ${many(its.length, "node")}`, y + TITLE / 2]);
      y += TITLE;
    }
    its.forEach((node, at) => spots.push({ node, x: (at % row) * SIZE, y: y + Math.floor(at / row) * SIZE }));
    y += Math.ceil(its.length / row) * SIZE + 4;
  }
  const at = (x: number, top: number) => spots.find((spot) => spot.x <= x && x < spot.x + SIZE && spot.y <= top && top < spot.y + SIZE);
  const bad = nodes.filter(isBad).length;
  const gone = nodes.filter((node) => node.gone_s !== undefined).length;
  const spot = gone ? `, and ${many(gone, "spot node")} gone` : "";
  const how = (node: Node) => node.error ?? (node.gone_s !== undefined ? `a spot node, gone for ${node.gone_s} s` : percent((node.used_bytes ?? 0) / (node.quota_bytes || 1)));
  return (
    <Canvas
      height={Math.max(y, SIZE)}
      label={`${many(nodes.length, "node")} in ${many(names.length, "rack")}, of which ${bad} answer nothing${spot}. The table has the same.`}
      onPoint={(x, top) => {
        const node = at(x, top)?.node;
        if (!node) return "";
        return `${node.id} ${node.host}: ${bytes(node.used_bytes)} of ${bytes(node.quota_bytes)}, ${how(node)}`;
      }}
      onChoose={(x, top) => {
        const node = at(x, top)?.node;
        if (node) onChoose(node);
      }}
      draw={(context) => {
        context.font = "12px system-ui, sans-serif";
        context.textBaseline = "middle";
        context.fillStyle = colour("quiet");
        for (const [title, top] of titles) context.fillText(title, 0, top);
        const [line, full, red] = [colour("line"), colour("one"), colour("bad")];
        for (const { node, x, y: top } of spots) {
          if (node.gone_s !== undefined) {
            context.strokeStyle = line;
            context.strokeRect(x + 0.5, top + 0.5, SIZE - 3, SIZE - 3);
            continue;
          }
          context.fillStyle = isBad(node) ? red : line;
          context.fillRect(x, top, SIZE - 2, SIZE - 2);
          if (isBad(node)) continue;
          const filled = Math.min((node.used_bytes ?? 0) / (node.quota_bytes || 1), 1) * (SIZE - 2);
          context.fillStyle = full;
          context.fillRect(x, top + SIZE - 2 - filled, SIZE - 2, filled);
        }
      }}
    />
  );
}
