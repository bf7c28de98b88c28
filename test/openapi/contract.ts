type Schema = {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
};
type Header = { readonly $ref?: string; readonly required?: boolean; readonly schema?: Schema };
type Response = {
  readonly $ref?: string;
  readonly headers?: Readonly<Record<string, Header>>;
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
};
type Operation = {
  readonly operationId: string;
  readonly security?: unknown;
  readonly parameters: readonly {
    readonly in: string;
    readonly name: string;
    readonly required?: boolean;
    readonly schema: Schema;
  }[];
  readonly responses: Readonly<Record<string, Response>>;
};
export type OpenApiDocument = {
  readonly servers: readonly { readonly url: string }[];
  readonly security: unknown;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly securitySchemes: Readonly<Record<string, { type: string; scheme: string }>>;
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly headers: Readonly<Record<string, Header>>;
    readonly responses: Readonly<Record<string, Response>>;
  };
};

/**
 * What clients depend on in an OpenAPI document, as text: each line is a statement, and the operations
 * and components for which the statement is true. Descriptions, examples and order have no effect.
 */
export function contractOf({ servers, security, paths, components }: OpenApiDocument): string {
  const { securitySchemes, schemas, headers, responses } = components;
  const subjects = new Map<string, string[]>();
  const add = (subject: string, statements: Iterable<string>) => {
    for (const statement of statements) {
      subjects.set(statement, [...(subjects.get(statement) ?? []), subject]);
    }
  };
  add('document', [...servers.map(({ url }) => `server ${url}`), securityText(security)]);
  for (const [name, { type, scheme }] of Object.entries(securitySchemes)) {
    add(name, [`security scheme ${type} ${scheme}`]);
  }
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      add(`${method.toUpperCase()} ${path}`, operationStatements(operation));
    }
  }
  for (const [name, header] of Object.entries(headers)) add(name, [`header ${headerText(header)}`]);
  for (const [name, response] of Object.entries(responses)) {
    add(name, responseStatements('response', response));
  }
  for (const [name, schema] of Object.entries(schemas))
    add(name, schemaStatements('schema', schema));
  const lines = [...subjects].map(([statement, of]) => `${statement}: ${of.sort().join(', ')}\n`);
  return lines.sort().join('');
}

function* operationStatements({ operationId, security, parameters, responses }: Operation) {
  yield `operation ${operationId}`;
  if (security !== undefined) yield securityText(security);
  for (const { in: location, name, required, schema } of parameters) {
    const presence = required === true ? 'required' : 'optional';
    yield `parameter ${name} in ${location}, ${presence}, ${schemaText(schema)}`;
  }
  for (const [status, response] of Object.entries(responses)) {
    yield* responseStatements(status, response);
  }
}

function* responseStatements(name: string, { $ref, headers, content }: Response) {
  yield $ref === undefined ? name : `${name} ${nameIn($ref)}`;
  for (const [header, described] of Object.entries(headers ?? {})) {
    yield `${name} header ${header}, ${headerText(described)}`;
  }
  for (const [type, { schema }] of Object.entries(content ?? {})) {
    yield* schemaStatements(`${name} ${type}`, schema);
  }
}

/** The schema, and each property of the objects in the schema. */
function* schemaStatements(name: string, schema: Schema): Generator<string> {
  yield `${name}, ${schemaText(schema)}`;
  yield* propertyStatements(`${name} `, schema);
}

function* propertyStatements(
  path: string,
  { properties, required, items }: Schema,
): Generator<string> {
  for (const [name, property] of Object.entries(properties ?? {})) {
    const presence = required?.includes(name) === true ? 'always' : 'sometimes';
    yield `${path}${name}, ${presence}, ${schemaText(property)}`;
    yield* propertyStatements(`${path}${name}.`, property);
  }
  if (items !== undefined) yield* propertyStatements(`${path}[].`, items);
}

const securityText = (security: unknown): string => `security ${JSON.stringify(security)}`;

const headerText = ({ $ref, required, schema = {} }: Header): string =>
  $ref === undefined
    ? `${required === true ? 'always' : 'sometimes'}, ${schemaText(schema)}`
    : nameIn($ref);

// Not compared: text for people, and keywords that have statements or a place of their own.
const ignoredKeywords = new Set([
  ...['title', 'description', 'examples', 'deprecated', 'x-addition'],
  ...['$ref', 'type', 'properties', 'required', 'items'],
]);

/** Type and constraints of a schema, without the properties of objects. */
function schemaText(schema: Schema): string {
  const { $ref, type = 'any', items } = schema;
  if ($ref !== undefined) return nameIn($ref);
  const constraints = Object.entries(schema)
    .filter(([keyword]) => !ignoredKeywords.has(keyword))
    .map(([keyword, value]) => ` ${keyword}=${JSON.stringify(value)}`);
  const item = items === undefined ? '' : ` of ${schemaText(items)}`;
  return `${[type].flat().join('|')}${constraints.sort().join('')}${item}`;
}

const nameIn = (reference: string): string => reference.split('/').at(-1) ?? '';
