import { useEffect, useRef, useState } from "preact/hooks";

export type Draw = (context: CanvasRenderingContext2D, width: number, height: number) => void;

interface Props {
  height: number;
  label: string; // what a screen reader says
  draw: Draw;
  onPoint?: (x: number, y: number) => string; // what is there, for the pointer's title
  onChoose?: (x: number, y: number) => void;
}

/** A canvas as wide as there is room, sharp on every screen, drawn anew when `draw` changes. */
export function Canvas({ height, label, draw, onPoint, onChoose }: Props) {
  const element = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [, redraw] = useState(0);
  useEffect(() => {
    const box = element.current?.parentElement;
    if (!box) return;
    const observer = new ResizeObserver(() => setWidth(Math.floor(box.clientWidth)));
    observer.observe(box);
    const recolour = () => redraw((times) => times + 1);
    addEventListener("tfquiver-theme", recolour);
    return () => {
      observer.disconnect();
      removeEventListener("tfquiver-theme", recolour);
    };
  }, []);
  useEffect(() => {
    const canvas = element.current;
    const context = canvas?.getContext("2d");
    if (!canvas || !context || !width) return;
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    context.scale(scale, scale);
    context.clearRect(0, 0, width, height);
    draw(context, width, height);
  });
  const at = (event: MouseEvent): [number, number] => [event.offsetX, event.offsetY];
  return (
    <canvas
      ref={element}
      role="img"
      aria-label={label}
      style={{ width: "100%", height: `${height}px`, cursor: onChoose ? "pointer" : "default" }}
      onMouseMove={(event) => {
        if (onPoint && element.current) element.current.title = onPoint(...at(event));
      }}
      onClick={(event) => onChoose?.(...at(event))}
    />
  );
}
