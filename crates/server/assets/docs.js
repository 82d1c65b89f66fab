// Shows openapi.json and lets one try each call. Everything is put in as text, so that nothing in the document can run.
"use strict";

const make = (name, props = {}, ...children) => {
  const element = Object.assign(document.createElement(name), props);
  element.append(...children);
  return element;
};

const resolve = (spec, schema, depth = 0) => {
  if (!schema || depth > 6) return {};
  if (schema.$ref) return resolve(spec, spec.components.schemas[schema.$ref.split("/").pop()], depth + 1);
  return schema;
};

const example = (spec, given, depth = 0) => {
  const schema = resolve(spec, given);
  const kind = Array.isArray(schema.type) ? schema.type.find((it) => it !== "null") : schema.type;
  const choice = (schema.oneOf || schema.anyOf || schema.allOf || []).find((it) => it.type !== "null");
  if (depth > 4) return null;
  if (schema.example !== undefined) return schema.example;
  if (schema.enum) return schema.enum[0];
  if (choice) return example(spec, choice, depth + 1);
  if (kind === "array") return schema.items ? [example(spec, schema.items, depth + 1)] : [];
  if (kind === "integer" || kind === "number") return schema.minimum ?? 0;
  if (kind === "boolean") return true;
  if (kind === "string") return schema.format === "date-time" ? new Date().toISOString() : "";
  const needed = schema.required || [];
  return Object.fromEntries(Object.entries(schema.properties || {})
    .filter(([name]) => needed.includes(name)).map(([name, it]) => [name, example(spec, it, depth + 1)]));
};

const send = async (spec, path, method, fields, body, output) => {
  let address = spec.servers[0].url + path;
  const query = new URLSearchParams();
  const headers = { Accept: "application/json" };
  for (const { parameter, input } of fields) {
    if (input.value === "") continue;
    if (parameter.in === "path") address = address.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    if (parameter.in === "query") query.set(parameter.name, input.value);
    if (parameter.in === "header") headers[parameter.name] = input.value;
  }
  const token = document.getElementById("token").value.trim();
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body && body.value.trim()) headers["Content-Type"] = "application/json";
  if (query.size) address += `?${query}`;
  output.textContent = "…";
  try {
    const answer = await fetch(address, { method: method.toUpperCase(), headers, body: body?.value.trim() || undefined });
    const text = await answer.text();
    output.textContent = `${answer.status} ${answer.statusText}\n\n${text}`;
  } catch (error) {
    output.textContent = `no answer: ${error}`;
  }
};

const form = (spec, path, method, call) => {
  const box = make("div");
  const fields = (call.parameters || []).map((parameter) => {
    const input = make("input", { type: "text", placeholder: parameter.required ? "needed" : "" });
    box.append(make("label", { className: "field" }, `${parameter.name} (${parameter.in})`, input,
      make("small", { textContent: parameter.description || "" })));
    return { parameter, input };
  });
  const schema = call.requestBody?.content?.["application/json"]?.schema;
  let body = null;
  if (schema) {
    body = make("textarea", { rows: 8, value: JSON.stringify(example(spec, schema), null, 2) });
    box.append(make("label", {}, "Body", body));
  }
  if (path === "/events") return box.append("This is a stream: open it with EventSource or curl -N."), box;
  const output = make("pre", { textContent: "" });
  const button = make("button", { type: "button", textContent: "Send" });
  button.addEventListener("click", () => send(spec, path, method, fields, body, output));
  return box.append(button, output), box;
};

const show = (spec) => {
  const calls = document.getElementById("calls");
  calls.textContent = "";
  for (const [path, item] of Object.entries(spec.paths)) {
    for (const [method, call] of Object.entries(item)) {
      const details = make("details", {}, make("summary", {},
        make("span", { className: "method", textContent: method.toUpperCase() }),
        make("code", { textContent: spec.servers[0].url + path }), make("span", { textContent: call.summary || "" })));
      details.dataset.words = `${method} ${path} ${call.summary} ${call.tags}`.toLowerCase();
      details.addEventListener("toggle", () => {
        if (details.open && details.children.length === 1) {
          details.append(make("p", { textContent: call.description || "" }), form(spec, path, method, call));
        }
      });
      calls.append(details);
    }
  }
};

const find = () => {
  const words = document.getElementById("find").value.toLowerCase();
  for (const call of document.querySelectorAll("#calls > details")) call.hidden = !call.dataset.words.includes(words);
};

document.getElementById("find").addEventListener("input", find);
fetch("openapi.json").then((answer) => answer.json()).then(show)
  .catch((error) => { document.getElementById("calls").textContent = `openapi.json cannot be read: ${error}`; });
