// What forms and lists need of the OpenAPI document: kinds of resources, their fields, patches.

const BODY = "application/json";
const POLICY = "x-policy"; // of an operation: its rule

const resolve = (document_, schema) => schema?.$ref
  ? schema.$ref.replace("#/", "").split("/").reduce((node, name) => node[name], document_)
  : schema;

// The schema of the body of a request, as ("/v1/nodes", "post").
export const bodySchema = (document_, path, method) =>
  resolve(document_, document_.paths[path][method].requestBody.content[BODY].schema);

// The schema of a property that refers to another schema.
export const propertySchema = (document_, schema, name) => resolve(document_, schema.properties[name]);

// Kinds of resources that can be listed, created, changed and deleted, in the order of the
// document, without parts of nodes; nodes have a page of their own. Each kind is
// { title, path, member, detail, create, change, rules }: `member` of the list's answer, whether the list
// takes `detail`, schemas of bodies, and the rules of the policy.
export function kindsOf(document_) {
  const bodyOf = operation => resolve(document_, operation?.requestBody?.content[BODY]?.schema);
  return Object.entries(document_.paths).flatMap(([path, { get, post }]) => {
    const item = Object.keys(document_.paths).find(candidate =>
      candidate.startsWith(`${path}/{`) && candidate.indexOf("/", path.length + 1) < 0);
    const { patch, delete: remove } = document_.paths[item] || {};
    if (!get || !post || !patch || !remove || path.includes("{") || path === "/v1/nodes") return [];
    const answer = resolve(document_, get.responses[200].content[BODY].schema);
    const name = path.replace("/v1/", "");
    return [{
      title: titleOf(name), path: name, member: Object.keys(answer.properties).find(key => key !== "next"),
      detail: get.parameters.some(parameter => parameter.name === "detail"), create: bodyOf(post), change: bodyOf(patch),
      rules: { create: post[POLICY], change: patch[POLICY], remove: remove[POLICY] },
    }];
  });
}

const titleOf = path => {
  const text = path.replaceAll(/[_/]/g, " ").replace("portgroups", "port groups");
  return text[0].toUpperCase() + text.slice(1);
};

// Fields of a form for the schema of a body: { name, type, required, options, ... }.
export const fieldsOf = schema => Object.entries(schema.properties)
  .filter(([, property]) => !property.readOnly)
  .map(([name, property]) => ({
    name, type: typeOf(property), required: (schema.required || []).includes(name),
    options: property.enum?.filter(word => word !== null), description: property.description,
    pattern: property.pattern, maxLength: property.maxLength, minimum: property.minimum, maximum: property.maximum,
  }))
  .sort((left, right) => right.required - left.required);

// The type of a field: boolean, integer, number, string, or json for documents and lists.
function typeOf(schema) {
  const types = [schema.type].flat().filter(type => type && type !== "null");
  const simpleTypes = ["boolean", "integer", "number", "string"];
  return types.length === 1 && simpleTypes.includes(types[0]) ? types[0] : "json";
}

// Names of the fields that a patch may change: they are in the pattern of its paths.
export function changeable({ change }) {
  const [, names] = /^\^\/\(([\w|]+)\)/.exec(change.items.properties.path.pattern) || [];
  return names ? names.split("|") : [];
}

const isSame = (left, right) => JSON.stringify(left ?? null) === JSON.stringify(right ?? null);

// Return the JSON patch from the current values to the form's; an emptied field is removed. pathOf: returns
// the path of a field.
export const patchOf = (fields, current, values, pathOf = name => `/${name}`) => fields
  .filter(({ name }) => !isSame(current[name] === "" ? null : current[name], values[name]))
  .map(({ name }) => values[name] === undefined
    ? { op: "remove", path: pathOf(name) }
    : { op: "add", path: pathOf(name), value: values[name] });
