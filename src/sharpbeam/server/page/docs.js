// Describes the API as /openapi.json has it: a table for each endpoint. Needs nothing from elsewhere.

function element(name, ...content) {
  const created = document.createElement(name);
  created.append(...content);
  return created;
}

function typeOf(schema) {
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  return schema.type === "array" ? `list of ${typeOf(schema.items || {})}` : schema.type || "any";
}

function described(path, method, operation) {
  const parts = [element("h2", element("code", `${method.toUpperCase()} ${path}`)), element("p", operation.summary || "")];
  const content = Object.values(operation.requestBody?.content || {})[0];
  const schema = content?.schema, fields = Object.entries(schema?.properties || {});
  for (const each of operation.parameters || []) fields.push([each.name, { ...each.schema, description: each.description }]);
  if (fields.length) {
    const head = element("tr", ...["Field", "Type", "Default", "Meaning"].map((title) => element("th", title)));
    const rows = fields.map(([name, field]) => element("tr",
      element("td", element("code", name), schema?.required?.includes(name) ? " (required)" : ""),
      element("td", typeOf(field)), element("td", field.default === undefined ? "" : JSON.stringify(field.default).replace(/^(""|null|{})$/, "")), element("td", field.description || "")));
    parts.push(element("table", element("thead", head), element("tbody", ...rows)));
  }
  return parts;
}

document.getElementById("origin").textContent = new URL(".", location.href).href.replace(/\/$/, "");
const response = await fetch("openapi.json"), place = document.getElementById("endpoints");
if (response.ok) {
  const { paths } = await response.json();
  place.replaceChildren(...Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).flatMap(([method, operation]) => described(path, method, operation))));
} else {
  place.textContent = "The description cannot be read.";
}
