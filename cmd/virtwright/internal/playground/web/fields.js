// Completion and descriptions of YAML fields, from schema.json. Text need not be valid YAML: a path
// comes from indentation alone. A document is CodeMirror's Text: lines, line(n), lineAt(offset).

const keyLine = /^(\s*)((?:- +)*)(?:"([^"]*)"|'([^']*)'|([^\s#:{}[\],&*!|>'"%@`-][^:#]*?|-[^\s:#][^:#]*?))\s*:(?=\s|$)/;
const separator = /^(---|\.\.\.)(\s|$)/;

// keyOf returns the key of a line with its columns; null for a line without a key.
function keyOf(text) {
  const match = keyLine.exec(text);
  if (!match) return null;
  const dash = match[2] ? match[1].length : -1;
  return { key: match[3] ?? match[4] ?? match[5], column: match[1].length + match[2].length, dash, end: match[0].length };
}

// pathAbove returns the keys above line n that enclose a key at the column, outermost first, and the
// other keys of the same map above it.
function pathAbove(doc, n, column, dash) {
  const path = [];
  const siblings = new Set();
  let below = dash >= 0 ? dash + 1 : column; // a parent's key is left of this column
  for (let i = n - 1, open = dash < 0; i >= 1 && (below > 0 || (open && column === 0)); i--) {
    const { text } = doc.line(i);
    if (separator.test(text)) break;
    const line = keyOf(text);
    if (!line) continue;
    if (line.column < below) {
      path.unshift(line.key);
      below = line.dash >= 0 ? line.dash + 1 : line.column;
      open = false;
    } else if (line.column === column && path.length === 0 && open) {
      siblings.add(line.key);
      if (line.dash >= 0) {
        below = line.dash + 1;
        open = false;
      }
    } else if (line.dash >= 0 && line.dash < below && line.column === below) {
      below = line.dash + 1;
    }
  }
  return { path, siblings };
}

// keysBelow returns the keys below line n in the map of a key at the column.
function keysBelow(doc, n, column) {
  const siblings = new Set();
  for (let i = n + 1; i <= doc.lines; i++) {
    const { text } = doc.line(i);
    const start = text.search(/[^\s]/);
    if (separator.test(text) || (start >= 0 && start < column && text[start] !== "#")) break;
    const line = keyOf(text);
    if (line?.column === column && line.dash < 0) siblings.add(line.key);
  }
  return siblings;
}

// flow follows {…} and […] of a line up to its end: the keys around the end, the text there, and the
// other keys of the map there, also those in after.
function flow(text, after) {
  const around = [];
  const keys = [];
  let key = "";
  let word = "";
  let value = false;
  for (const c of text) {
    if (c === "{" || c === "[") {
      around.push(key);
      keys.push(new Set());
      key = word = "";
      value = false;
    } else if (c === "}" || c === "]") {
      around.pop();
      keys.pop();
      key = word = "";
    } else if (c === ",") {
      key = word = "";
      value = false;
    } else if (c === ":") {
      [key, word, value] = [word.trim(), "", true];
      keys.at(-1)?.add(key);
    } else {
      word += c;
    }
  }
  let depth = 0;
  const rest = [...after].filter((c) => {
    if ("}]".includes(c)) depth = depth === 0 ? -Infinity : depth - 1; // behind the map
    if ("{[".includes(c)) depth++;
    return depth === 0;
  }).join("");
  const siblings = new Set([...(keys.at(-1) ?? []), ...rest.split(",").slice(1).map((field) => field.split(":")[0].trim())]);
  return { around: around.filter(Boolean), key, word: word.trimStart(), value, siblings };
}

// place describes an offset: the path of the enclosing map, and the key or value that is there.
function place(doc, offset) {
  const line = doc.lineAt(offset);
  const before = line.text.slice(0, offset - line.from);
  const key = keyOf(line.text);
  if (key && key.end <= before.length) {
    const { path } = pathAbove(doc, line.number, key.column, key.dash);
    const rest = before.slice(key.end);
    if (!/^\s*(- +)*[{[]/.test(rest)) return { path, key: key.key, word: rest.trimStart(), value: true, siblings: new Set(), inline: true };
    const inside = flow(rest, line.text.slice(before.length));
    return { ...inside, path: [...path, key.key, ...inside.around], inline: true };
  }
  const [, indent, dashes, word] = /^(\s*)((?:- +)*)(.*)$/.exec(before);
  const { path, siblings } = pathAbove(doc, line.number, indent.length + dashes.length, dashes ? indent.length : -1);
  const column = indent.length + dashes.length;
  for (const name of keysBelow(doc, line.number, column)) siblings.add(name);
  return { path, key: "", word, value: false, siblings, column, inline: false };
}

// kindAt returns the kind of the document around line n.
function kindAt(doc, n) {
  const kindOf = (text) => /^kind:\s*["']?(\w+)/.exec(text)?.[1];
  for (const step of [-1, 1]) {
    for (let i = step < 0 ? n : n + 1; i >= 1 && i <= doc.lines; i += step) {
      const { text } = doc.line(i);
      if (separator.test(text) && i !== n) break;
      if (kindOf(text)) return kindOf(text);
    }
  }
  return undefined;
}

export class Fields {
  #schema;

  // kinds are the kinds to complete, in the order of importance.
  constructor(schema, kinds) {
    this.#schema = schema;
    this.kinds = kinds;
  }

  // complete returns {from, options: [{label, detail, info, apply}]} for an offset, or null.
  complete(doc, offset, explicit) {
    const at = place(doc, offset);
    if (!explicit && !at.word && !at.value) return null;
    const from = offset - at.word.length;
    const options = at.value ? this.#values(doc, offset, at) : this.#keys(doc, offset, at);
    return options.length ? { from, options } : null;
  }

  // describe returns {name, type, text, values, from, to} of the key at an offset, or null.
  describe(doc, offset) {
    const line = doc.lineAt(offset);
    const word = /[\w$-]*$/.exec(line.text.slice(0, offset - line.from))[0].length;
    const rest = /^[\w$-]*/.exec(line.text.slice(offset - line.from))[0].length;
    const [from, to] = [offset - word, offset + rest];
    if (from === to || !/^["']?\s*:/.test(line.text.slice(to - line.from))) return null;
    const at = place(doc, from);
    const name = doc.sliceString(from, to);
    const field = this.#map(doc, offset, at.value ? [] : at.path)?.[name];
    return field && { name, type: field.t, text: field.d, values: field.e, from, to };
  }

  #map(doc, offset, path) {
    const kind = this.#schema.kinds[kindAt(doc, doc.lineAt(offset).number)];
    if (!kind) return undefined;
    let map = this.#schema.maps[kind.p];
    for (const key of path) {
      const field = map?.[key] ?? map?.["*"];
      map = this.#schema.maps[field?.p];
    }
    return map;
  }

  #keys(doc, offset, at) {
    const map = this.#map(doc, offset, at.path);
    const names = Object.entries(map ?? {}).filter(([name]) => name !== "*" && !at.siblings.has(name));
    const options = names.map(([name, field]) => ({
      label: name, detail: field.t, info: field.d, type: "property", apply: name + this.#after(field, at),
    }));
    if (at.path.length === 0) {
      for (const name of ["apiVersion", "kind"]) {
        if (!at.siblings.has(name)) options.unshift({ label: name, type: "property", apply: name + ": " });
      }
    }
    return options;
  }

  // after is what follows a new key: a space, or a line for its first field.
  #after(field, at) {
    if (at.inline || !["object", "map", "array"].includes(field.t)) return ": ";
    return ":\n" + " ".repeat(at.column + (field.t === "array" ? 0 : 2)) + (field.t === "array" ? "- " : "");
  }

  #values(doc, offset, at) {
    const kind = kindAt(doc, doc.lineAt(offset).number);
    let values;
    if (at.path.length === 0 && at.key === "kind") {
      values = this.kinds;
    } else if (at.path.length === 0 && at.key === "apiVersion") {
      values = [...new Set((kind ? [kind] : this.kinds).map((name) => this.#schema.kinds[name]?.v).filter(Boolean))];
    } else {
      const field = this.#map(doc, offset, at.path)?.[at.key];
      values = field?.t === "boolean" ? ["true", "false"] : (field?.e ?? []);
    }
    return values.map((label) => ({ label, type: "enum" }));
  }
}
