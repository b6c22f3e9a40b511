"use strict";
// Whatever comes from the server or a file is put on the page as text, never as HTML.
const MOST_ITEMS = 100, MOST_ROWS = 50, LONGEST = 2000;
const at = (id) => document.getElementById(id);
const made = (kind, text, ...below) => {
  const element = document.createElement(kind);
  if (text !== undefined && text !== null) element.textContent = String(text);
  element.append(...below);
  return element;
};
let models = [], token = "", last = null, tab = "curl", turn = 0;

const headers = () => token ? { Authorization: `Bearer ${token}` } : {};

async function exchange(path, content) {
  const options = content === undefined ? { headers: headers() } : {
    method: "POST", headers: { ...headers(), "Content-Type": "application/json" }, body: JSON.stringify(content),
  };
  const answer = await fetch(path, options);
  const text = await answer.text();
  let found = null;
  try { found = JSON.parse(text); } catch { found = { error: text.slice(0, LONGEST) }; }
  if (!answer.ok) {
    const why = found.error && found.error.message ? found.error.message : found.error;
    throw Object.assign(new Error(why || `status ${answer.status}`), { status: answer.status });
  }
  return { content: found, version: decodeURIComponent(answer.headers.get("Paddock-Version") || "") };
}

async function begin() {
  try {
    models = (await exchange("/page/models")).content;
  } catch (error) {
    at("token-row").hidden = error.status !== 401;
    at("state").textContent = error.status === 401 ? "This server wants its token" : error.message;
    return;
  }
  at("token-row").hidden = true;
  at("state").textContent = models.length === 1 ? "1 model" : `${models.length} models`;
  at("model").replaceChildren(...models.map((model) => Object.assign(made("option", model.name), { value: model.name })));
  choose();
}

const chosen = () => models.find((model) => model.name === at("model").value) || models[0];

function choose() {
  const model = chosen();
  if (!model) return;
  at("version-row").hidden = model.versions.length < 2;
  at("version").replaceChildren(
    Object.assign(made("option", "by shares"), { value: "" }),
    ...model.versions.map((label) => Object.assign(made("option", label), { value: label })),
  );
  const example = model.example, isPair = Array.isArray(example) && example.length === 2;
  const isText = typeof example === "string" || model.writes;
  at("text-row").hidden = model.takes_files || model.bare !== null;
  at("drop").hidden = at("file").hidden = model.bare !== null || model.writes;
  at("second").hidden = at("second-label").hidden = !isPair || model.writes;
  at("text-label").textContent = model.writes ? "Text to go on from" : isPair ? "First text" : isText ? "Text" : "Item, as JSON";
  at("file").accept = model.takes_files ? model.files.join(",") : ".txt,.csv,.tsv,.json,.jsonl";
  at("takes").textContent = model.bare !== null
    ? `This file says nothing of what stands around its network: send the tensors ${model.bare.join(", ")} to /v2/models/${model.name}/infer.`
    : model.writes ? "Writes on from a text."
    : model.takes_files ? `Takes files: ${model.files.join(" ")}`
    : isText || isPair ? "Takes texts, or a file with one on each line." : "Takes rows, or a table with the columns' names in its first line.";
  at("drop-text").textContent = model.takes_files ? "Drop files here, or choose them" : "Drop a table or texts here, or choose a file";
  at("text").value = model.writes ? "Once upon a time" : isPair ? example[0] : isText ? example : JSON.stringify(example, null, 1);
  at("second").value = isPair ? example[1] : "";
  last = null;
  problem("");
  code();
}

const problem = (text) => { at("problem").textContent = text; };
const named = () => {
  const label = at("version").value;
  return label ? `${chosen().name}@${label}` : chosen().name;
};

function typed() {
  const model = chosen(), text = at("text").value;
  if (model.writes || typeof model.example === "string") return text;
  if (Array.isArray(model.example) && model.example.length === 2) return [text, at("second").value];
  try { return JSON.parse(text); } catch (error) { throw new Error(`The item is no JSON: ${error.message}`); }
}

async function ask(items, names) {
  const mine = ++turn, model = chosen();
  problem("");
  at("answers").setAttribute("aria-busy", "true");
  at("state").textContent = items.length === 1 ? "Asking" : `Asking about ${items.length} items`;
  const start = performance.now();
  try {
    const body = model.writes ? { model: named(), prompt: items[0], max_tokens: 64 } : { model: named(), input: items, draw: true };
    const found = await exchange(model.writes ? "/v1/completions" : "/v1/scores", body);
    if (mine !== turn) return;
    const rows = model.writes
      ? found.content.choices.map((choice) => ({ drawing: { type: "text/plain", data: items[0] + choice.text }, result: choice }))
      : found.content.data;
    at("answers").replaceChildren(...rows.map((row, i) => shown(row, names[i] || `Item ${i + 1}`)));
    at("state").textContent = `${found.version || named()} answered in ${Math.round(performance.now() - start)} ms`;
  } catch (error) {
    if (mine === turn) { problem(error.message); at("state").textContent = "No answer"; }
  } finally {
    if (mine === turn) at("answers").removeAttribute("aria-busy");
  }
}

function shown(row, name) {
  const article = made("article", null, made("h3", name)), drawing = row.drawing;
  if (drawing && drawing.type === "image/jpeg") {
    const image = document.createElement("img");
    image.src = `data:image/jpeg;base64,${drawing.data}`;
    image.alt = `${name}: ${said(row.result)}`.slice(0, 300);
    article.append(image);
  } else if (drawing) article.append(made("pre", drawing.data));
  const table = tableOf(row.result);
  if (table) article.append(table);
  if (row.truncated) article.append(made("p", "The model takes no more: the end was left out."));
  article.append(made("details", null, made("summary", "JSON"), made("pre", short(row.result))));
  return article;
}

const short = (value) => JSON.stringify(value, (key, each) => typeof each === "string" && each.length > LONGEST ? `${each.slice(0, 60)}... (${each.length} characters)` : each, 1);
const plain = (value) => typeof value === "number" && !Number.isInteger(value) ? value.toFixed(4)
  : typeof value === "object" && value !== null ? short(value).replace(/\s+/g, " ").slice(0, 80) : String(value).slice(0, 200);
const said = (result) => (Array.isArray(result) ? `${result.length} found. ` : "") + short(result).replace(/[\s"{}[\]]+/g, " ");

function tableOf(result) {
  let rows = result;
  if (result && !Array.isArray(result) && typeof result === "object") {
    const inner = Object.values(result).find((value) => Array.isArray(value) && value.length && typeof value[0] === "object");
    rows = inner || Object.entries(result).filter(([, value]) => typeof value !== "string" || value.length <= 200).map(([name, value]) => ({ name, value }));
  }
  if (!Array.isArray(rows) || !rows.length || typeof rows[0] !== "object" || rows[0] === null || Array.isArray(rows[0])) return null;
  const columns = Object.keys(rows[0]).slice(0, 8);
  const table = made("table", null, made("thead", null, made("tr", null, ...columns.map((name) => Object.assign(made("th", name), { scope: "col" })))));
  table.append(made("tbody", null, ...rows.slice(0, MOST_ROWS).map((row) => made("tr", null, ...columns.map((name) => made("td", plain(row[name])))))));
  if (rows.length > MOST_ROWS) table.append(made("caption", `The first ${MOST_ROWS} of ${rows.length}`));
  return Object.assign(made("div", null, table), { className: "scroll" });
}

const base64 = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
  reader.onerror = () => reject(new Error(`${file.name}: cannot be read`));
  reader.readAsDataURL(file);
});

// Fields in quotes may hold separators, line ends and doubled quotes.
function fields(text, separator) {
  const rows = [[]];
  let field = "", quoted = false;
  for (let i = 0; i < text.length; i++) {
    const letter = text[i];
    if (quoted) {
      if (letter !== '"') field += letter;
      else if (text[i + 1] === '"') { field += '"'; i++; } else quoted = false;
    } else if (letter === '"' && field === "") quoted = true;
    else if (letter === separator) { rows.at(-1).push(field); field = ""; }
    else if (letter === "\n") { rows.at(-1).push(field.replace(/\r$/, "")); field = ""; rows.push([]); }
    else field += letter;
  }
  rows.at(-1).push(field.replace(/\r$/, ""));
  return rows.filter((row) => row.length > 1 || row[0] !== "");
}

function itemsOf(name, text) {
  const model = chosen();
  if (/\.json$/i.test(name)) return [JSON.parse(text)].flat();
  if (/\.jsonl$/i.test(name)) return text.split("\n").filter((line) => line.trim()).map((line) => JSON.parse(line));
  if (Array.isArray(model.example)) return fields(text, text.includes("\t") ? "\t" : ",").map((row) => row.slice(0, 2));
  if (typeof model.example === "string") return text.split(/\r?\n/).filter((line) => line.trim());
  const head = text.slice(0, text.indexOf("\n") < 0 ? text.length : text.indexOf("\n"));
  const separator = ["\t", ";", ","].find((each) => head.includes(each)) || ",";
  const [columns, ...rows] = fields(text, separator);
  const known = Object.keys(model.example || {});
  return rows.map((row) => Object.fromEntries(columns.map((column, i) => [column, row[i] ?? ""]).filter(([column]) => !known.length || known.includes(column))));
}

async function take(files) {
  const model = chosen(), all = [...files];
  if (!model || !all.length || model.bare !== null || model.writes) return;
  try {
    let items = [], names = [];
    if (model.takes_files) {
      items = await Promise.all(all.slice(0, MOST_ITEMS).map(base64));
      names = all.map((file) => file.name);
    } else {
      items = itemsOf(all[0].name, await all[0].text());
      names = items.map((_, i) => `${all[0].name}, ${i + 1}`);
    }
    if (!items.length) throw new Error(`${all[0].name}: there is nothing in it that the model takes`);
    const left = items.length - MOST_ITEMS;
    last = { name: all[0].name, item: model.takes_files ? null : items[0] };
    code();
    await ask(items.slice(0, MOST_ITEMS), names);
    if (left > 0) problem(`${left} more were left out: the page asks about ${MOST_ITEMS} at a time.`);
  } catch (error) { problem(error.message); }
}

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function code() {
  const model = chosen();
  if (!model) return;
  const url = location.origin, file = last && last.name ? last.name : "FILE";
  let item = "";
  try { item = last && last.item ? last.item : model.takes_files || model.bare !== null ? null : typed(); } catch { item = model.example; }
  const path = model.writes ? "/v1/completions" : "/v1/scores";
  const body = model.writes ? { model: named(), prompt: item, max_tokens: 64 } : { model: named(), input: [item] };
  const guard = token ? ["-H 'Authorization: Bearer TOKEN'"] : [];
  const text = JSON.stringify(body), q = JSON.stringify;
  const head = `{"model": ${q(named())}, "input": ["`;
  const lines = {
    curl: model.takes_files
      ? `{ printf %s ${shell(head)}; base64 -w0 ${shell(file)}; printf '"]}'; } |\n  curl ${[shell(url + path), ...guard, "-H 'Content-Type: application/json'", "--data-binary @-"].join(" ")}`
      : `curl ${[shell(url + path), ...guard, "-H 'Content-Type: application/json'"].join(" ")} \\\n  -d ${shell(text)}`,
    python: [
      "import json, urllib.request",
      ...(model.takes_files ? ["from base64 import b64encode", "", `item = b64encode(open(${q(file)}, "rb").read()).decode()`] : [""]),
      `body = json.loads(${q(text)})`,
      ...(model.takes_files ? ['body["input"] = [item]'] : []),
      `headers = {"Content-Type": "application/json"${token ? ', "Authorization": "Bearer TOKEN"' : ""}}`,
      `asked = urllib.request.Request(${q(url + path)}, json.dumps(body).encode(), headers)`,
      "print(json.load(urllib.request.urlopen(asked)))",
    ].join("\n"),
    javascript: [
      ...(model.takes_files ? ['import { readFile } from "node:fs/promises";', "", `const item = (await readFile(${q(file)})).toString("base64");`] : []),
      `const body = ${text};`,
      ...(model.takes_files ? ["body.input = [item];"] : []),
      `const answer = await fetch(${q(url + path)}, {`,
      '  method: "POST",',
      `  headers: { "Content-Type": "application/json"${token ? ', Authorization: "Bearer TOKEN"' : ""} },`,
      "  body: JSON.stringify(body),",
      "});",
      "console.log(await answer.json());",
    ].join("\n"),
  };
  at("code").textContent = model.bare !== null ? `curl ${shell(`${url}/v2/models/${encodeURIComponent(model.name)}`)}` : lines[tab];
}

const TABS = ["curl", "python", "javascript"];
function turnTo(name) {
  tab = name;
  for (const each of TABS) {
    at(`tab-${each}`).setAttribute("aria-selected", String(each === name));
    at(`tab-${each}`).tabIndex = each === name ? 0 : -1;
  }
  at("code").setAttribute("aria-labelledby", `tab-${name}`);
  code();
}
for (const [i, name] of TABS.entries()) {
  at(`tab-${name}`).addEventListener("click", () => turnTo(name));
  at(`tab-${name}`).addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = TABS[(i + step + TABS.length) % TABS.length];
    turnTo(next);
    at(`tab-${next}`).focus();
  });
}
at("copy").addEventListener("click", async () => {
  try { await navigator.clipboard.writeText(at("code").textContent); at("copy").textContent = "Copied"; }
  catch { getSelection().selectAllChildren(at("code")); at("copy").textContent = "Selected"; }
  setTimeout(() => { at("copy").textContent = "Copy"; }, 1500);
});
at("token-row").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  begin();
});
at("model").addEventListener("change", choose);
at("version").addEventListener("change", code);
for (const id of ["text", "second"]) at(id).addEventListener("input", () => { last = null; code(); });
at("text").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("ask").click(); });
at("ask").addEventListener("click", () => {
  try { ask([typed()], []); } catch (error) { problem(error.message); }
});
at("file").addEventListener("change", () => { take(at("file").files); at("file").value = ""; });
at("file").addEventListener("focus", () => at("drop").classList.add("focused"));
at("file").addEventListener("blur", () => at("drop").classList.remove("focused"));
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    at("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") take(event.dataTransfer.files);
  });
}
document.addEventListener("paste", (event) => {
  if (event.clipboardData && event.clipboardData.files.length) take(event.clipboardData.files);
});
begin();
