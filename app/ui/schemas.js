// What forms and lists need of the OpenAPI document: kinds of resources, their fields, patches.

const BODY = "application/json";

const resolved = (document_, schema) => schema?.$ref
  ? schema.$ref.replace("#/", "").split("/").reduce((found, name) => found[name], document_)
  : schema;

// Kinds of resources that can be listed, created, changed and deleted, in the order of the
// document, without parts of nodes; nodes have a page of their own. Each kind is
// { title, path, member, detail, create, change }: `member` of the list's answer, whether the list
// takes `detail`, and schemas of bodies.
export function kindsOf(document_) {
  const bodyOf = operation => resolved(document_, operation?.requestBody?.content[BODY]?.schema);
  return Object.entries(document_.paths).flatMap(([path, { get, post }]) => {
    const item = Object.keys(document_.paths).find(each =>
      each.startsWith(`${path}/{`) && each.indexOf("/", path.length + 1) < 0);
    const { patch, delete: remove } = document_.paths[item] || {};
    if (!get || !post || !patch || !remove || path.includes("{") || path === "/v1/nodes") return [];
    const answer = resolved(document_, get.responses[200].content[BODY].schema);
    const name = path.replace("/v1/", "");
    return [{
      title: titled(name), path: name, member: Object.keys(answer.properties).find(each => each !== "next"),
      detail: get.parameters.some(each => each.name === "detail"), create: bodyOf(post), change: bodyOf(patch),
    }];
  });
}

const titled = path => {
  const words = path.replaceAll(/[_/]/g, " ").replace("portgroups", "port groups");
  return words[0].toUpperCase() + words.slice(1);
};

// Fields of a form for the schema of a body: { name, type, required, options, ... }.
export const fieldsOf = schema => Object.entries(schema.properties)
  .filter(([, each]) => !each.readOnly)
  .map(([name, each]) => ({
    name, type: typeOf(each), required: (schema.required || []).includes(name),
    options: each.enum?.filter(word => word !== null), description: each.description,
    pattern: each.pattern, maxLength: each.maxLength, minimum: each.minimum, maximum: each.maximum,
  }))
  .sort((one, other) => other.required - one.required);

// The type of a field: boolean, integer, number, string, or json for documents and lists.
function typeOf(schema) {
  const types = [schema.type].flat().filter(each => each && each !== "null");
  const known = ["boolean", "integer", "number", "string"];
  return types.length === 1 && known.includes(types[0]) ? types[0] : "json";
}

// Names of the fields that a patch may change: they are in the pattern of its paths.
export function changeable({ change }) {
  const [, names] = /^\^\/\(([\w|]+)\)/.exec(change.items.properties.path.pattern) || [];
  return names ? names.split("|") : [];
}

const same = (one, other) => JSON.stringify(one ?? null) === JSON.stringify(other ?? null);

// JSON patch from the current values to those of the form; an emptied field is removed.
export const patchOf = (fields, current, given) => fields
  .filter(({ name }) => !same(current[name], given[name]))
  .map(({ name }) => given[name] === undefined
    ? { op: "remove", path: `/${name}` }
    : { op: "add", path: `/${name}`, value: given[name] });
