import { createRequire } from 'node:module';
import { dirname, isAbsolute, join } from 'node:path';

const root = dirname(createRequire(import.meta.url).resolve('#package.json'));

/** The path of a file in this package, both from sources and from `dist`. */
export const packageFile = (path: string): string => join(root, path);

/** The compiled file of a program. */
export const builtProgram = (source: string): string =>
  packageFile(join('dist', source.replace(/\.ts$/, '.js')));

/** Node's arguments that run a program by its source: the product's compiled, others from their sources. */
export function programArguments(path: string): string[] {
  if (isAbsolute(path)) return [path];
  return /^(src|sync)\//.test(path) ? [builtProgram(path)] : ['--import', 'tsx', packageFile(path)];
}
