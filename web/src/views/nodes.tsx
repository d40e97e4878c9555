import { useEffect, useRef, useState } from "preact/hooks";
import { Racks } from "../drawn/racks";
import { go, type Place } from "../place";
import { isBad, type Node, type Now } from "../told";
import { bytes, count, percent } from "../words";
import { Bar, Find, Table } from "../drawn/table";

export function Nodes({ now, place }: { now: Now; place: Place }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!box.current) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const sought = place.find.toLowerCase();
  const order = (node: Node) => (isBad(node) ? 0 : node.gone_s === undefined ? 1 : 2);
  const rows = now.nodes
    .filter((node) => `${node.id} ${node.host} ${node.rack}`.toLowerCase().includes(sought))
    .sort((one, other) => order(one) - order(other));
  const state = (node: Node) => {
    if (node.lost_s !== undefined) return `lost ${node.lost_s} s`;
    if (node.gone_s !== undefined) return <span title="a spot node: it may be taken away">{`gone ${node.gone_s} s`}</span>;
    return node.error ? "no answer" : count(node.readers);
  };
  return (
    <>
      <section>
        <div ref={box}>{width > 0 && <Racks nodes={rows} width={width} onChoose={(node) => go({ find: node.id }, true)} />}</div>
      </section>
      <section>
        <div class="tools">
          <Find find={place.find} what="nodes, hosts, racks" onFind={(find) => go({ find }, true)} />
        </div>
        <Table<Node>
          label="nodes"
          rows={rows}
          id={(node) => `${node.id} ${node.lost_s ?? node.gone_s ?? ""}`}
          columns={[
            { head: "node", cell: (node) => node.id, width: "5.4rem", narrow: "4.4rem" },
            { head: "host", cell: (node) => node.host, width: "minmax(6.6rem, 2fr)" },
            { head: "rack", cell: (node) => node.rack || "-", width: "minmax(3rem, 1fr)", wide: true },
            {
              head: "used",
              cell: (node) => (node.quota_bytes ? <Bar share={(node.used_bytes ?? 0) / node.quota_bytes} label={bytes(node.used_bytes)} more={` of ${bytes(node.quota_bytes)}`} /> : "keeps nothing"),
              width: "minmax(4.6rem, 3fr)",
            },
            { head: "readers", cell: state, width: "4.8rem", number: true },
            {
              head: "hits",
              cell: (node) => {
                const given = (node.hits ?? 0) + (node.peer_hits ?? 0) + (node.misses ?? 0);
                return given ? percent(((node.hits ?? 0) + (node.peer_hits ?? 0)) / given) : "-";
              },
              width: "3.5rem",
              number: true,
              wide: true,
            },
            { head: "store", cell: (node) => bytes(node.store_bytes), width: "5rem", number: true, wide: true },
          ]}
        />
      </section>
    </>
  );
}
