import { readFile } from 'node:fs/promises';
import type { LoadHook } from 'node:module';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

// Hooks of Node's loader: `await` expressions of the service end late (delays.ts).

const delayed =
  /\/(src\/(domain|duckdb|engines|exports|http|postgres|purchase-store|resources)|sync)\/.*\.ts$/;

/** Constants with smaller values: the API closes unused files every two seconds. */
const constants: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'serving/served-organizations.ts': { maxIdleMs: 0, idleCheckMs: 2_000 },
};

export const load: LoadHook = async (url, context, nextLoad) => {
  if (!delayed.test(url) || url.includes('/node_modules/')) return nextLoad(url, context);
  const text = await readFile(fileURLToPath(url), 'utf8');
  if (!text.includes('await ')) return nextLoad(url, context);
  const name = Object.keys(constants).find((each) => url.endsWith(each));
  const values = new Map(Object.entries((name && constants[name]) ?? {}));
  const { outputText } = ts.transpileModule(text, {
    compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
    transformers: { before: [transformation(values)] },
  });
  if (values.size > 0) throw new Error(`${url} has no constant ${[...values.keys()]}`);
  return { format: 'module', source: outputText, shortCircuit: true };
};

/** Removes from `values` those that it has replaced. */
const transformation =
  (values: Map<string, number>): ts.TransformerFactory<ts.SourceFile> =>
  (context) =>
  (file) => {
    const { factory } = context;
    const visit = (node: ts.Node): ts.Node => {
      const visited = ts.visitEachChild(node, visit, context);
      if (ts.isAwaitExpression(visited)) {
        const endLate = factory.createIdentifier('endLate');
        const call = factory.createCallExpression(endLate, undefined, [visited.expression]);
        return factory.updateAwaitExpression(visited, call);
      }
      if (!ts.isVariableDeclaration(visited) || !ts.isIdentifier(visited.name)) return visited;
      const value = values.get(visited.name.text);
      if (value === undefined) return visited;
      values.delete(visited.name.text);
      const literal = factory.createNumericLiteral(value);
      return factory.updateVariableDeclaration(
        visited,
        visited.name,
        undefined,
        undefined,
        literal,
      );
    };
    return ts.visitNode(file, visit) as ts.SourceFile;
  };
