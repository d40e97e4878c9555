// What the server tells: tfquiver/cli/dashboard/shown.py and service/coordinator/history_of_the_last_day. Sizes in bytes, rates in bytes/s.
export interface Node {
  id: string;
  host: string;
  rack: string;
  used_bytes?: number;
  quota_bytes?: number;
  readers?: number;
  hits?: number;
  peer_hits?: number;
  misses?: number;
  store_bytes?: number;
  served_bytes?: number;
  error?: string;
  lost_s?: number;
  gone_s?: number; // a spot node that was given up: no failure
}

export const isBad = (node: Node): boolean => Boolean(node.error) || node.lost_s !== undefined;

export interface Dataset {
  name: string;
  digest_id: string;
  size_bytes: number;
  records: number;
  cache: string;
  resident_bytes?: number;
  chunks?: number;
  resident_chunks?: number;
  moving_bytes?: number;
}

export interface Job {
  job: string;
  name: string;
  dataset: string;
  digest_id: string;
  epoch: number;
  done: number;
  readers: number;
  state: string;
  bytes_per_s?: number;
  stall_share?: number;
  hit_share?: number;
  step_ms?: number;
  read_bytes?: number;
  hit_bytes?: number;
}

export interface Now {
  error?: string;
  now_s: number;
  coordinator: string;
  problems: string[];
  going_on: string[];
  hit_ratio: number | null;
  saved: { bytes: number; requests: number; served_bytes: number; store_bytes: number };
  nodes: Node[];
  datasets: Dataset[];
  jobs: Job[];
}

export type Values = (number | null)[];

export interface Epoch {
  job: string;
  dataset: string;
  epoch: number;
  began_s: number;
  ended_s: number;
  done: number;
}

export interface Decision {
  at_s: number;
  kind: string;
  name: string;
  was: unknown;
  becomes: unknown;
  measurement: string;
  rule: string;
  refused: string;
}

export interface Past {
  untold?: string;
  now_s: number;
  step_s: number;
  cluster: Record<string, Values>;
  jobs: Record<string, Record<string, Values>>;
  epochs: Epoch[];
  heat: { rows: number; columns: number; cells: string; step_s: number } | null;
  decisions: Decision[];
}
