// Judges the arguments of a tool by its JSON Schema before they are sent. Pure. The service judges them
// again: what is not known here is left to it.

/** Return what is wrong with a value: a list of `{path, problem}`, empty if nothing is. */
export function findProblems(schema, value, root = schema, path = "", depth = 0) {
  if (schema === true || schema === undefined || schema === null || depth > 32) return [];
  if (schema === false) return [{ path, problem: "is not allowed" }];
  if (schema.$ref) return findProblems(resolve(root, schema.$ref), value, root, path, depth + 1);
  const judge = (inner, one, at) => findProblems(inner, one, root, at, depth + 1);
  return [
    ...judgeType(schema, value, path),
    ...judgeValue(schema, value, path),
    ...judgeChoices(schema, value, path, judge),
    ...(isObject(value) ? judgeObject(schema, value, path, judge) : []),
    ...(Array.isArray(value) ? judgeList(schema, value, path, judge) : []),
  ];
}

function resolve(root, reference) {
  if (!reference.startsWith("#/")) return true;
  const steps = reference.slice(2).split("/").map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  return steps.reduce((found, step) => (found && Object.hasOwn(found, step) ? found[step] : undefined), root);
}

function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

const TYPES = {
  object: isObject,
  array: Array.isArray,
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: (value) => typeof value === "number" && Number.isInteger(value),
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
};

const NAMES = {
  object: "an object", array: "a list", string: "a text", number: "a number",
  integer: "a whole number", boolean: "true or false", null: "null",
};

function judgeType(schema, value, path) {
  if (schema.type === undefined) return [];
  const wanted = [schema.type].flat();
  if (wanted.some((name) => TYPES[name]?.(value) ?? true)) return [];
  return [{ path, problem: `must be ${wanted.map((name) => NAMES[name]).join(" or ")}` }];
}

function judgeValue(schema, value, path) {
  const problems = [];
  const say = (problem) => problems.push({ path, problem });
  const same = (one) => JSON.stringify(one) === JSON.stringify(value);
  if (schema.enum && !schema.enum.some(same)) say(`must be one of ${schema.enum.map((one) => JSON.stringify(one)).join(", ")}`);
  if ("const" in schema && !same(schema.const)) say(`must be ${JSON.stringify(schema.const)}`);
  if (typeof value === "number") {
    if (value < schema.minimum) say(`must be at least ${schema.minimum}`);
    if (value > schema.maximum) say(`must be at most ${schema.maximum}`);
    if (value <= schema.exclusiveMinimum) say(`must be more than ${schema.exclusiveMinimum}`);
    if (value >= schema.exclusiveMaximum) say(`must be less than ${schema.exclusiveMaximum}`);
  }
  if (typeof value === "string") {
    const length = [...value].length;
    if (length < schema.minLength) say(`must have at least ${schema.minLength} letters`);
    if (length > schema.maxLength) say(`must have at most ${schema.maxLength} letters`);
  }
  return problems;
}

function judgeChoices(schema, value, path, judge) {
  const problems = (schema.allOf ?? []).flatMap((inner) => judge(inner, value, path));
  for (const choices of [schema.anyOf, schema.oneOf]) {
    if (!choices) continue;
    const tried = choices.map((inner) => judge(inner, value, path));
    if (tried.every((found) => found.length)) {
      const nearest = tried.reduce((best, found) => (found.length < best.length ? found : best));
      problems.push(...(choices.length === 1 ? nearest : [{ path, problem: `fits none of ${choices.length} forms: ${nearest[0].problem}` }]));
    }
  }
  return problems;
}

function judgeObject(schema, value, path, judge) {
  const known = schema.properties ?? {};
  const problems = (schema.required ?? [])
    .filter((name) => !Object.hasOwn(value, name))
    .map((name) => ({ path: join(path, name), problem: "is missing" }));
  for (const [name, one] of Object.entries(value)) {
    if (Object.hasOwn(known, name)) problems.push(...judge(known[name], one, join(path, name)));
    else if (schema.additionalProperties === false) problems.push({ path: join(path, name), problem: "is not an argument of this tool" });
    else if (isObject(schema.additionalProperties)) problems.push(...judge(schema.additionalProperties, one, join(path, name)));
  }
  return problems;
}

function judgeList(schema, value, path, judge) {
  const problems = [];
  if (value.length < schema.minItems) problems.push({ path, problem: `must have at least ${schema.minItems} items` });
  if (value.length > schema.maxItems) problems.push({ path, problem: `must have at most ${schema.maxItems} items` });
  value.forEach((one, index) => {
    const inner = schema.prefixItems?.[index] ?? schema.items;
    if (inner !== undefined) problems.push(...judge(inner, one, `${path}[${index}]`));
  });
  return problems;
}

function join(path, name) {
  return path ? `${path}.${name}` : name;
}

/** Read edited arguments; return `{value, problems}`. */
export function judgeArguments(text, schema) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { value: null, problems: [{ path: "", problem: `is not JSON: ${error.message}` }] };
  }
  if (!isObject(value)) return { value: null, problems: [{ path: "", problem: "must be an object" }] };
  return { value, problems: findProblems(schema ?? true, value) };
}
