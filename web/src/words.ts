const UNITS = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];

export function bytes(amount: number | null | undefined): string {
  if (amount === null || amount === undefined) return "-";
  let at = 0;
  while (amount >= 999.5 && at < UNITS.length - 1) {
    amount /= 1000;
    at += 1;
  }
  return `${at && amount < 99.95 ? amount.toFixed(1) : Math.round(amount)} ${UNITS[at]}`;
}

export const rate = (amount: number | null | undefined) => (amount === null || amount === undefined ? "-" : `${bytes(amount)}/s`);

/** All only where it is all, and nothing only where it is nothing. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined) return "-";
  if (share <= 0 || share >= 1) return share > 0 ? "100%" : "0%";
  return `${Math.min(Math.max(Math.round(100 * share), 1), 99)}%`;
}

export const count = (number: number | undefined) => (number === undefined ? "-" : number.toLocaleString("en"));

export const many = (number: number, what: string) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

export const clock = (unix_s: number) => new Date(unix_s * 1000).toLocaleTimeString("en-GB");

export const date = (unix_s: number) => new Date(unix_s * 1000).toLocaleString("en-GB");
