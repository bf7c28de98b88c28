/** A node of `explain (format json, verbose)`. */
export type PlanNode = {
  readonly 'Node Type': string;
  readonly 'Parent Relationship'?: string;
  readonly Schema?: string;
  readonly 'Relation Name'?: string;
  readonly Alias?: string;
  readonly Strategy?: string;
  readonly 'Index Cond'?: string;
  readonly 'Sort Key'?: readonly string[];
  readonly Plans?: readonly PlanNode[];
};

export type Scan = {
  readonly schema: string;
  readonly relation: string;
  readonly aliases: readonly string[];
  /** From the root to the node of the scan. */
  readonly path: readonly PlanNode[];
};

/** The scans of a plan that may read all rows of a table. */
export function fullScans(node: PlanNode, above: readonly PlanNode[] = []): Scan[] {
  const path = [...above, node];
  const below = (node.Plans ?? []).flatMap((child) => fullScans(child, path));
  if (!isFullScan(node, above)) return below;
  const { Schema: schema = '', 'Relation Name': relation = '', Alias: alias = relation } = node;
  // Conditions above partitions have the alias of the partitioned table.
  return [{ schema, relation, aliases: [alias, alias.replace(/_\d+$/, '')], path }, ...below];
}

function isFullScan(node: PlanNode, above: readonly PlanNode[]): boolean {
  const { 'Node Type': type, 'Index Cond': condition } = node;
  if (type === 'Seq Scan') return true;
  const isWalk = /^Index (Only )?Scan$/.test(type) && condition === undefined;
  return isWalk && (!above.some(isLimit) || above.some(isBlocking));
}

const isLimit = ({ 'Node Type': type }: PlanNode): boolean => type === 'Limit';

/** Whether a node reads all of its input before it returns a row. */
export const isBlocking = ({ 'Node Type': type, Strategy: strategy }: PlanNode): boolean =>
  type === 'Sort' || type === 'Hash' || (type === 'Aggregate' && strategy === 'Hashed');

/** Whether a scan is of a subquery that runs for each row. */
export const isForEachRow = ({ path }: Scan): boolean =>
  path.some((node) => node['Parent Relationship'] === 'SubPlan');

const conditionNames = ['Filter', 'Hash Cond', 'Merge Cond', 'Join Filter', 'Index Cond'];

/**
 * The expression over the scanned table that conditions compare, nearest first: what an index would be
 * of. Null if there is none.
 */
export function comparedExpression({ aliases, path }: Scan): string | null {
  for (const node of path.toReversed()) {
    for (const name of conditionNames) {
      const condition = (node as Readonly<Record<string, unknown>>)[name];
      const operands = typeof condition === 'string' ? operandsOf(condition) : [];
      const expression = firstOf(aliases, operands);
      if (expression !== null) return expression;
    }
  }
  return null;
}

/** The first sort key above the scan that is an expression over its table. */
export function sortedExpression({ aliases, path }: Scan): string | null {
  for (const node of path.toReversed()) {
    const expression = firstOf(aliases, (node['Sort Key'] ?? []).slice(0, 1));
    if (expression !== null) return expression;
  }
  return null;
}

/** The first expression over the table, without its alias. */
function firstOf(aliases: readonly string[], expressions: readonly string[]): string | null {
  for (const alias of aliases) {
    const expression = expressions.find((text) => columnOf(alias).test(text));
    if (expression !== undefined) return withoutAlias(alias, expression);
  }
  return null;
}

/** Both sides of the equalities of a condition, without those with a constant: many rows may share it. */
function operandsOf(condition: string): string[] {
  return [...condition.matchAll(/ = /g)].flatMap(({ index }) => {
    const sides = [
      condition.slice(edge(condition, index, -1) + 1, index),
      condition.slice(index + 3, edge(condition, index + 2, 1)),
    ];
    return sides.some(isConstant) ? [] : sides;
  });
}

const isConstant = (text: string): boolean => /^\(*('([^']|'')*'|-?[\d.]+|true|false)/.test(text);

/** The position of the parenthesis that encloses a position. */
function edge(text: string, from: number, step: 1 | -1): number {
  const [deeper, shallower] = step === 1 ? ['(', ')'] : [')', '('];
  let depth = 0;
  let position = from;
  for (; position >= 0 && position < text.length; position += step) {
    if (text[position] === deeper) depth += 1;
    if (text[position] === shallower) depth -= 1;
    if (depth < 0) break;
  }
  return position;
}

const escapeRegExp = (text: string): string => text.replaceAll(/[$()*+.?[\\\]^{|}]/g, '\\$&');
const columnOf = (alias: string): RegExp =>
  new RegExp(`(?<![\\w".])"?${escapeRegExp(alias)}"?\\.(?=["\\w])`, 'g');

/** As a column, or an expression in parentheses, of an index. */
const withoutAlias = (alias: string, text: string): string =>
  indexExpression(text.replaceAll(columnOf(alias), ''));

/** Without parentheses around a column, and with one pair around an expression. */
export function indexExpression(text: string): string {
  let expression = text;
  while (expression.startsWith('(') && edge(expression, 1, 1) === expression.length - 1) {
    expression = expression.slice(1, -1);
  }
  return /^("[^"]+"|\w+)$/.test(expression) ? expression : `(${expression})`;
}
