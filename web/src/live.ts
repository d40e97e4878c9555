// What comes from the server: events of now, and every ten seconds what was.
import { useEffect, useState } from "preact/hooks";
import type { Now, Past } from "./told";

const PAST_EVERY_MS = 10_000;
const SILENT_MS = 15_000;

export function useNow(): { now: Now | null; trouble: string } {
  const [now, setNow] = useState<Now | null>(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    const events = new EventSource("events"); // connects again by itself
    let heard = performance.now();
    events.onmessage = (event: MessageEvent<string>) => {
      heard = performance.now();
      const told = JSON.parse(event.data) as Now;
      if (told.error) setTrouble(told.error);
      else {
        setTrouble("");
        setNow(told);
      }
    };
    const timer = setInterval(() => {
      if (performance.now() - heard > SILENT_MS) setTrouble("tfquiver dashboard does not answer: is it still running?");
    }, 1000);
    return () => {
      events.close();
      clearInterval(timer);
    };
  }, []);
  return { now, trouble };
}

export function usePast(span: string, jobs: string[], dataset: string): Past | null {
  const [past, setPast] = useState<Past | null>(null);
  const asked = new URLSearchParams([["span", span], ...jobs.map((job) => ["job", job]), ["dataset", dataset]]).toString();
  useEffect(() => {
    const gone = new AbortController();
    const ask = async () => {
      try {
        const answer = await fetch(`past?${asked}`, { signal: gone.signal });
        if (answer.ok) setPast((await answer.json()) as Past);
      } catch {
        // the events say that nobody answers
      }
    };
    void ask();
    const timer = setInterval(() => void ask(), PAST_EVERY_MS);
    return () => {
      gone.abort();
      clearInterval(timer);
    };
  }, [asked]);
  return past;
}
