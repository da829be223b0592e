// Points on a canvas that can be zoomed, moved, and walked through with the keyboard.

import { colour } from "./theme.js";

const LEAST = 8; // pixels within which a click finds a point

export class Scatter {
  /** ``layers``: lists of {x, y, ...}, drawn in order; ``extent``: of the data. */
  constructor(canvas, extent, layers, { onPick, onPoint }) {
    this.canvas = canvas;
    this.extent = extent;
    this.layers = layers;
    this.view = { scale: 1, x: 0, y: 0 };
    this.onPick = onPick;
    this.onPoint = onPoint;
    this.focused = null;
    this.#listen();
  }

  #size() {
    return { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
  }

  place({ x, y }) {
    const { width, height } = this.#size();
    const { x0, x1, y0, y1 } = this.extent;
    const pad = 18;
    const unit = Math.min((width - 2 * pad) / (x1 - x0 || 1), (height - 2 * pad) / (y1 - y0 || 1)) * this.view.scale;
    return [
      width / 2 + this.view.x + (x - (x0 + x1) / 2) * unit, height / 2 + this.view.y - (y - (y0 + y1) / 2) * unit,
    ];
  }

  draw() {
    const { width, height } = this.#size();
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, width, height);
    for (const layer of this.layers) if (!layer.hidden) this.#drawLayer(pen, layer);
    if (this.focused) {
      const [x, y] = this.place(this.focused);
      pen.strokeStyle = colour("ink");
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(x, y, 9, 0, 2 * Math.PI);
      pen.stroke();
    }
  }

  #drawLayer(pen, { points, colour: name, radius, shape = "dot", alpha = 1 }) {
    pen.fillStyle = pen.strokeStyle = colour(name);
    pen.globalAlpha = alpha;
    pen.lineWidth = 1.6;
    for (const point of points) {
      const [x, y] = this.place(point);
      const r = point.radius ?? radius;
      pen.beginPath();
      if (shape === "cross") {
        pen.moveTo(x - r, y);
        pen.lineTo(x + r, y);
        pen.moveTo(x, y - r);
        pen.lineTo(x, y + r);
        pen.stroke();
      } else if (shape === "star") {
        for (let i = 0; i < 10; i += 1) {
          const size = i % 2 ? r * 0.45 : r;
          const angle = (Math.PI * i) / 5 - Math.PI / 2;
          pen[i ? "lineTo" : "moveTo"](x + size * Math.cos(angle), y + size * Math.sin(angle));
        }
        pen.closePath();
        pen.fill();
        pen.strokeStyle = colour("panel");
        pen.stroke();
      } else {
        pen.arc(x, y, r, 0, 2 * Math.PI);
        if (shape === "ring") pen.stroke();
        else pen.fill();
      }
    }
    pen.globalAlpha = 1;
  }

  #pickable() {
    return this.layers.filter((layer) => layer.picked && !layer.hidden).flatMap((layer) => layer.points);
  }

  nearest(x, y, within = LEAST) {
    let best = null;
    let least = within;
    for (const point of this.#pickable()) {
      const [px, py] = this.place(point);
      const far = Math.hypot(px - x, py - y);
      if (far < least) [best, least] = [point, far];
    }
    return best;
  }

  zoom(factor, x, y) {
    const { width, height } = this.#size();
    const scale = Math.min(40, Math.max(1, this.view.scale * factor));
    const [cx, cy] = [(x ?? width / 2) - width / 2, (y ?? height / 2) - height / 2];
    const change = scale / this.view.scale;
    this.view = scale === 1 ? { scale, x: 0, y: 0 }
      : { scale, x: cx - (cx - this.view.x) * change, y: cy - (cy - this.view.y) * change };
    this.draw();
  }

  focus(point) {
    this.focused = point;
    this.onPoint(point);
    this.draw();
  }

  #listen() {
    const { canvas } = this;
    let drag = null;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && this.view.scale === 1 && event.deltaY > 0) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, ...at(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      drag = { at: at(event), view: { ...this.view }, moved: false };
      if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (drag && event.buttons && this.view.scale > 1) {
        drag.moved ||= Math.hypot(x - drag.at[0], y - drag.at[1]) > 4;
        this.view = { ...this.view, x: drag.view.x + x - drag.at[0], y: drag.view.y + y - drag.at[1] };
        this.draw();
      } else if (event.pointerType === "mouse") {
        const point = this.nearest(x, y);
        canvas.classList.toggle("over", Boolean(point));
        if (point !== this.focused) this.focus(point);
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      const point = drag && !drag.moved ? this.nearest(...at(event), event.pointerType === "mouse" ? LEAST : 20) : null;
      const again = point && (event.pointerType === "mouse" || point === this.focused);
      drag = null;
      if (point) this.focus(point);
      if (again) this.onPick(point);
    });
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  #key(event) {
    if (event.key === "Enter" && this.focused) {
      this.onPick(this.focused);
    } else if (event.key === "+" || event.key === "-") {
      this.zoom(event.key === "+" ? 1.3 : 1 / 1.3);
    } else if (event.key.startsWith("Arrow")) {
      this.#walk(event.key.slice(5));
    } else {
      return;
    }
    event.preventDefault();
  }

  /** To the nearest point in a direction. */
  #walk(direction) {
    const all = this.#pickable();
    if (!this.focused) return void (all.length && this.focus(all[0]));
    const [dx, dy] = { Left: [-1, 0], Right: [1, 0], Up: [0, -1], Down: [0, 1] }[direction];
    const [x, y] = this.place(this.focused);
    let best = null;
    let least = Infinity;
    for (const point of all) {
      const [px, py] = this.place(point);
      const ahead = (px - x) * dx + (py - y) * dy;
      const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      if (ahead > 1 && ahead + 3 * aside < least) [best, least] = [point, ahead + 3 * aside];
    }
    if (best) this.focus(best);
  }
}
