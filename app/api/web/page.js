"use strict";
const METHODS = ["get", "post", "put", "patch", "delete"];
const field = name => document.getElementById(name);

const element = (name, inside, kind) => {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  for (const each of [inside].flat(Infinity)) if (each !== undefined && each !== null) made.append(each);
  return made;
};

// text with `code` in it
const prose = text => (text || "").split("`").map((part, at) => at % 2 ? element("code", part) : part);

let spec;
const follow = node => {
  while (node && node.$ref)
    node = node.$ref.slice(2).split("/").reduce((at, key) => at[key.replace("~1", "/")], spec);
  return node || {};
};
const nameOf = schema => schema.$ref ? schema.$ref.split("/").pop() : "";

const typeOf = schema => {
  if (schema.$ref) return nameOf(schema);
  const choice = schema.anyOf || schema.oneOf || schema.allOf;
  if (choice) return choice.map(typeOf).join(" or ");
  const kinds = [schema.type || "anything"].flat()
    .map(kind => kind === "array" ? `list of ${typeOf(schema.items || {})}` : kind).join(" or ");
  return schema.format ? `${kinds}, ${schema.format}` : kinds;
};

// a value that a schema allows; `deep` keeps schemas that hold themselves from going on forever
const example = (schema, deep = 0) => {
  schema = follow(schema);
  if (schema.example !== undefined) return schema.example;
  if (schema.enum) return schema.enum[0];
  const choice = schema.anyOf || schema.oneOf || schema.allOf;
  if (choice) return example(choice[0], deep + 1);
  const kind = [schema.type].flat()[0];
  if (kind === "object" && schema.properties && deep < 5)
    return Object.fromEntries(Object.entries(schema.properties)
      .map(([name, inner]) => [name, example(inner, deep + 1)]));
  if (kind === "object") return {};
  if (kind === "array") return deep < 5 ? [example(schema.items || {}, deep + 1)] : [];
  if (kind === "integer" || kind === "number") return schema.minimum ?? 1;
  if (kind === "boolean") return true;
  if (schema.format === "uuid") return "1be26c0b-03f2-4d2e-ae87-c02d7f33c123";
  if (schema.format === "date-time") return "2026-01-01T12:00:00.000000+00:00";
  return kind === undefined ? null : "text";
};
// what must be there, to begin with
const beginning = schema => {
  const whole = follow(schema), all = example(schema);
  if (Array.isArray(all) || !whole.properties) return all;
  const needed = whole.required || [];
  return needed.length ? Object.fromEntries(needed.map(name => [name, all[name]])) : {};
};
const pretty = value => JSON.stringify(value, null, 2);

const table = rows => element("table", rows.map(row =>
  element("tr", row.map((cell, at) => element("td", at ? cell : element("code", cell))))));
const limits = schema => [
  schema.enum && schema.enum.length < 40 && schema.enum.filter(each => each !== null).join(" | "),
  schema.items && schema.items.enum && `of ${schema.items.enum.join(", ")}`,
  schema.pattern && `matches ${schema.pattern}`, schema.minimum !== undefined && `from ${schema.minimum}`,
  schema.maxLength && `at most ${schema.maxLength} characters`,
].filter(Boolean).join("; ");
const remark = (one, schema) => [one.description, limits(schema), one["x-since"] && `since ${one["x-since"]}`]
  .filter(Boolean).join(". ");

const shape = schema => {
  const whole = follow(schema);
  if (!whole.properties)
    return [element("p", element("code", typeOf(schema))), ...(whole.items ? [shape(whole.items)] : []).flat()];
  const required = whole.required || [];
  return [table(Object.entries(whole.properties).map(([name, inner]) =>
    [name, typeOf(inner), required.includes(name) ? "required" : "", prose(remark(inner, follow(inner)))]))];
};
const folded = (title, ...inside) => element("details",
  [element("summary", title), element("div", inside.flat(), "inside")]);

const contentOf = holder => Object.entries(follow(holder).content || {})[0];

const answers = about => Object.entries(about.responses).map(([status, holder]) => {
  const answer = follow(holder), content = contentOf(holder);
  const headers = Object.entries(answer.headers || {}).filter(([, each]) => !each.$ref)
    .map(([name, each]) => [name, "header", "", prose(each.description)]);
  const inside = [];
  if (headers.length) inside.push(table(headers));
  if (content) inside.push(element("p", element("code", content[0])), shape(content[1].schema));
  if (content && status < 300) inside.push(element("pre", pretty(example(content[1].schema))));
  return folded([element("code", status), element("span", prose(answer.description), "what")],
    inside.length ? inside : [element("p", "Without a body")]);
});

// a form that sends the request
const form = (path, method, about) => {
  const parameters = about.parameters.map(follow).filter(one => one.in !== "header" || one.name === "If-Match" || one.name === "Idempotency-Key");
  const fields = parameters.map(one => {
    const choices = one.schema && one.schema.enum;
    const input = choices ? element("select", ["", ...choices].map(each => element("option", each)))
      : element("input");
    return [one, input, element("label", [one.name + (one.required ? " *" : ""), input])];
  });
  const content = about.requestBody && contentOf(about.requestBody);
  const body = content && element("textarea", about.requestBody.required ? pretty(beginning(content[1].schema)) : "");
  const send = element("button", "Send"), told = element("pre");
  told.hidden = true;
  send.addEventListener("click", async () => {
    const headers = { "X-OpenStack-Ironic-API-Version": field("version").value };
    if (field("token").value) headers["X-Auth-Token"] = field("token").value;
    if (field("user").value) {
      const bytes = new TextEncoder().encode(`${field("user").value}:${field("password").value}`);
      headers.Authorization = `Basic ${btoa(String.fromCharCode(...bytes))}`;
    }
    let to = path;
    const query = new URLSearchParams();
    for (const [one, input] of fields) {
      if (one.in === "path") to = to.replace(`{${one.name}}`, encodeURIComponent(input.value));
      else if (input.value && one.in === "header") headers[one.name] = input.value;
      else if (input.value) query.append(one.name, input.value);
    }
    const request = { method, headers };
    if (body && body.value.trim() && method !== "GET") {
      request.body = body.value;
      headers["Content-Type"] = "application/json";
    }
    told.hidden = false;
    told.className = "";
    told.textContent = "…";
    try {
      const answer = await fetch(`.${to}${query.size ? `?${query}` : ""}`, request);
      const text = await answer.text();
      let shown = text;
      try { shown = pretty(JSON.parse(text)); } catch { /* not JSON */ }
      const also = ["Location", "ETag", "Retry-After", "Openstack-Request-Id"]
        .filter(name => answer.headers.get(name)).map(name => `${name}: ${answer.headers.get(name)}`);
      told.className = answer.ok ? "" : "bad";
      told.textContent = [`${answer.status} ${answer.statusText}`, ...also, "", shown].join("\n");
    } catch (error) {
      told.className = "bad";
      told.textContent = String(error);
    }
  });
  return folded("Try it", element("div", fields.map(each => each[2]), "try"), body, send, told);
};

const operation = (path, method, about) => {
  const parameters = about.parameters.map(follow);
  const facts = [`since ${about["x-since"]}`, about["x-policy"] ? `rule ${about["x-policy"]}` : "no rule",
    about.security.length ? "" : "without authentication"].filter(Boolean);
  const inside = [element("p", element("strong", prose(about.summary))), element("div", facts.map(each => element("span", each)), "facts")];
  inside.push(element("h4", "Parameters"), table(parameters.map(one =>
    [one.name, one.in, typeOf(one.schema || {}), one.required ? "required" : "", prose(remark(one, follow(one.schema)))])));
  const content = about.requestBody && contentOf(about.requestBody);
  if (content) inside.push(element("h4", `Body${nameOf(content[1].schema) ? `: ${nameOf(content[1].schema)}` : ""}`),
    shape(content[1].schema), folded("Example", element("pre", pretty(example(content[1].schema)))));
  inside.push(element("h4", "Answers"), answers(about), form(path, method, about));
  return inside.flat();
};

fetch("openapi.json").then(answer => answer.json()).then(found => {
  spec = found;
  const routes = field("routes"), groups = new Map(spec.tags.map(tag => [tag.name, { title: tag["x-displayName"], about: tag.description, items: [] }]));
  field("about").append(...prose(spec.info.description));
  routes.textContent = "";
  for (const [path, methods] of Object.entries(spec.paths))
    for (const method of METHODS.filter(each => methods[each]))
      groups.get(methods[method].tags[0]).items.push([path, method.toUpperCase(), methods[method]]);
  for (const [name, group] of groups) {
    const section = element("section", [element("h2", group.title), element("p", prose(group.about))]);
    section.id = name;
    const link = element("a", [group.title, element("span", String(group.items.length))]);
    link.href = `#${name}`;
    field("groups").append(link);
    for (const [path, method, about] of group.items) {
      const box = element("details", element("summary", [element("span", method, `method ${method}`),
        element("code", path), element("span", prose(about.summary), "what")]));
      box.id = about.operationId;
      box.dataset.words = `${method} ${path} ${about.summary} ${about["x-policy"] || ""}`.toLowerCase();
      box.addEventListener("toggle", () =>
        box.children.length > 1 || box.append(element("div", operation(path, method, about), "inside")));
      section.append(box);
    }
    routes.append(section);
  }
  field("filter").addEventListener("input", event => {
    const words = event.target.value.toLowerCase().split(/\s+/);
    for (const section of routes.children) {
      const boxes = [...section.querySelectorAll(":scope > details")];
      for (const box of boxes) box.hidden = !words.every(word => box.dataset.words.includes(word));
      section.hidden = boxes.every(box => box.hidden);
    }
  });
  const wanted = field(decodeURIComponent(location.hash.slice(1)));
  if (wanted) { wanted.open = true; wanted.scrollIntoView(); }
}).catch(error => { field("routes").textContent = `openapi.json could not be read: ${error}`; });
